"""From tokens to the batches of training and evaluation."""
