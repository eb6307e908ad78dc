"""Device, number formats, memory, kernels and compilation: what depends on the machine."""
