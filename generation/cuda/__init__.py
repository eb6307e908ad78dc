"""Decode on a GPU: steps of static shape, captured once as CUDA graphs and replayed."""
