"""Turn tokens into batches for training and evaluation."""
