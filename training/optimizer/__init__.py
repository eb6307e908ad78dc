"""Optimisers, learning-rate schedules, and the copies of the weights that they update."""
