"""Nearest-neighbour retrieval: similar training pairs, and what they say about the next token of a translation."""
