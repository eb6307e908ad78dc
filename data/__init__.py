"""Turn files, a hub dataset or the built-in corpus into rows, tokens and batches."""
