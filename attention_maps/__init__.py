"""Record, store, query, measure and draw the attention maps of a model during training."""
