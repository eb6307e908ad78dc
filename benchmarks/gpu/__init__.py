"""Benchmarks on a GPU, in stages that each run in a process: `bash benchmarks/gpu.sh`."""
