"""Plots of the stories. Importing this package registers all plots in `PLOTS`."""

from data.primer.plots import living, people, things
from data.primer.plots.casting import PLOTS

__all__ = ["PLOTS", "living", "people", "things"]
