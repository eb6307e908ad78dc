"""Decoding on a GPU: steps of one shape, recorded once as CUDA graphs and replayed."""
