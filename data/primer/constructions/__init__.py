"""The constructions of the corpus, by theme. Importing this package registers all constructions."""

from data.primer.constructions import adjectives, basic, combined, exchange, nested, questions, relative, verbs

__all__ = ["adjectives", "basic", "combined", "exchange", "nested", "questions", "relative", "verbs"]
