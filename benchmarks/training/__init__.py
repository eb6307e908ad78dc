"""Training steps, data loading, loss curves and scaling."""
