"""Benchmarks of training steps, data loading, loss curves and scaling."""
