"""Lines on the terminal while something runs."""

from __future__ import annotations

import sys

from tqdm import tqdm

from configs.program import silence


def say(message: str) -> None:
    """One line on standard output, above a progress bar. Work goes on where nobody reads it: `train.py … | head`, or a
    full disk."""
    try:
        tqdm.write(message, file=sys.stdout)
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
