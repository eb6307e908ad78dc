"""Everything there is to measure on a GPU, in stages that each are a process: `bash benchmarks/gpu.sh`."""
