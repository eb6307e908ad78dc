"""Record the attention of a model and measure its heads."""
