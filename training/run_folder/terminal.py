"""Print lines to the terminal above a progress bar."""

from __future__ import annotations

import sys

from tqdm import tqdm

from configs.program import silence


def print_line(message: str) -> None:
    """Print one line above a progress bar, ignoring a closed output (`train.py … | head`) and a full disk."""
    try:
        tqdm.write(message, file=sys.stdout)
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
