"""Print lines to the terminal above a progress bar."""

from __future__ import annotations

import sys

from tqdm import tqdm

from configs.program import silence


def say(message: str) -> None:
    """Print one line to standard output, above a progress bar. Continue silently if the output is closed (`| head`) or
    the disk is full."""
    try:
        tqdm.write(message, file=sys.stdout)
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
