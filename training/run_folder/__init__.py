"""Files of a run folder: config, checkpoints, logs and event files."""
