"""Reports of `evaluate.py`: scores of a split with intervals, comparisons of two runs, and their files."""
