"""Reference curves: which validation loss a recipe's run should have at each step."""
