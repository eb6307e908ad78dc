"""Draw attention maps as PNG and SVG images."""
