"""Benchmarks on a GPU: `bash benchmarks/gpu.sh`."""
