"""`python -m tests.robustness.torture kills=100 seed=1 task=gpt folder=FOLDER`: kill training runs, resume them, and
compare their ends with undisturbed runs."""

from __future__ import annotations

import signal
import sys

from configs.errors import UserError
from configs.program import run_guarded
from configs.settings import describe, read_settings
from tests.robustness.torture.torture import TortureSettings, torture


def main() -> None:
    """Read the settings, then kill runs; exit code 1 if anything is lost."""
    if {"--help", "-h"} & set(sys.argv):
        print(__doc__, "", "Settings (key=value):", *describe(TortureSettings(), none=""), sep="\n")
        return
    settings, problems = read_settings(TortureSettings, sys.argv[1:])
    if problems:
        raise UserError(*problems)
    torture(settings)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: the training processes are stopped
    run_guarded(main)
