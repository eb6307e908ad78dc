"""Files of a run folder: config, tokenizers, logs and event files."""
