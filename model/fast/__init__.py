"""Other forms of the functions that `model` defines: the same results, faster on some hardware."""
