"""Training: configuration, training loop, optimisers, checkpoints and evaluation."""
