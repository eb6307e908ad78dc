"""What is measured at an evaluation: losses, translations, heads, attention maps."""
