"""The commands of `python -m attention_maps`: list, heads, show, export."""
