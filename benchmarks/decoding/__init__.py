"""Sampling and beam search."""
