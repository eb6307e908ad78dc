"""Checkpoints of a run: their files, their folder with the links `last` and `best`, and saving during training."""
