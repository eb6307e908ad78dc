"""What every program of the project is built on: user errors, exit codes, `key=value` settings, atomic file writes."""
