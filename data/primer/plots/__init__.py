"""The plots. Importing this package registers them all in `PLOTS`."""

from data.primer.plots import living, people, things
from data.primer.plots.casting import PLOTS

__all__ = ["PLOTS", "living", "people", "things"]
