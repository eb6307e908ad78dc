"""Ours beside the peers: `python -m benchmarks --help`."""
