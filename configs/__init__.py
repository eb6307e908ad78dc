"""Default settings as YAML, and the command-line code that all programs share."""
