"""Plots of the stories. Importing this package registers all plots in `PLOTS`."""

from data.primer.plots import living, people, things, words
from data.primer.plots.casting import PLOTS

ANIMALS = ("chase", "race")
WITH_PEOPLE = tuple(name for name, _ in PLOTS if name not in ANIMALS)
"""Plots about two people, which can be the acts of a story."""

__all__ = ["PLOTS", "WITH_PEOPLE", "living", "people", "things", "words"]
