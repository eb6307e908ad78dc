"""Several processes that train one run together (data parallelism), started by torchrun."""
