"""Answer questions about a trained run: what it predicts for a text, and what changes without some of its heads."""
