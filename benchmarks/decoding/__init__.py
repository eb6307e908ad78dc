"""Benchmarks of sampling and beam search."""
