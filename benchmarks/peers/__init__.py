"""Our models in other people's programs: the same weights, so that speed is all that differs."""
