"""The files of a run: config, checkpoints, logs, event files."""
