"""Convert text to token ids and back, and store tokens on disk."""
