"""Recording, exporting and showing attention maps."""
