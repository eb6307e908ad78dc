"""Maps to take along: pictures, tables, alignments, and a page that needs no server."""
