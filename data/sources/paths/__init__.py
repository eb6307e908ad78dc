"""Recognise files by name and content: those that belong together, and those that are no data."""
