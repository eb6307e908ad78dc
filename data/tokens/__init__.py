"""From text to token ids and back; tokens on disk."""
