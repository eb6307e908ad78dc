"""What a path leads to: which files belong together, and which are of another kind."""
