"""Values of settings, as YAML, and what all commands share."""
