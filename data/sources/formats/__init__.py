"""File formats of rows: dialects of tables, and formats of translators and subtitles."""
