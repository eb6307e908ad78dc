"""GPU benchmarks in stages, each in its own process: `bash benchmarks/gpu.sh`."""
