"""Names of checkpoints in settings."""

import re

CHECKPOINTS = "best, last or the name of a step, step-00000500"


def is_checkpoint(name: str) -> bool:
    """Whether `name` is the name of a checkpoint or of early weights, not a path; whether it exists is checked on
    use."""
    return re.fullmatch(r"best|last|step-\d+(-\d+)?|weights-\d+", name) is not None
