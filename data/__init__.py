"""Rows -> tokens -> batches: everything between a file (or hub name, or the embedded corpus) and a tensor."""
