"""Rows -> tokens -> batches: from files, a hub dataset or the embedded corpus to tensors."""
