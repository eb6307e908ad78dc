"""Evaluation: held-out loss, translation scores, attention heads and attention maps."""
