"""From a model to recordings of its attention, and what can be measured of them."""
