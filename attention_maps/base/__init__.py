"""Foundations of every program of the project: user errors, exit codes, `key=value` settings, atomic file writes."""
