"""Optimisers, learning-rate schedules, and the model's weights with master and average copies."""
