"""The constructions of the corpus, by theme. Importing this package registers them all."""

from data.primer.constructions import basic

__all__ = ["basic"]
