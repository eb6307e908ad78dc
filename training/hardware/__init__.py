"""Hardware-dependent code: device, number formats, memory, kernels and compilation."""
