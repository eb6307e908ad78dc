"""Interpretability of the project's own models: attention maps, contributions to logits, circuits, behaviours."""
