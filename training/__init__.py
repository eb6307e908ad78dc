"""The training application: configuration, the loop, checkpoints, evaluation, generation."""
