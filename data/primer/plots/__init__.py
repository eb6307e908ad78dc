"""Plots of the stories. Importing this package registers all plots in `PLOTS`."""

from data.primer.plots import living, people, repeated, things
from data.primer.plots.casting import PLOTS

ANIMALS = ("chase", "race")
REPEATED = tuple(name for name, function in PLOTS if function.__module__ == repeated.__name__)
"""Plots in which words are repeated exactly."""
WITH_PEOPLE = tuple(name for name, _ in PLOTS if name not in (*ANIMALS, *REPEATED))
"""Plots about two people, which can be the acts of a story."""

__all__ = ["PLOTS", "REPEATED", "WITH_PEOPLE", "living", "people", "repeated", "things"]
