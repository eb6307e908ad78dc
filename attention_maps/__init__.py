"""Attention maps of a model in training: record, store, ask, measure and draw."""
