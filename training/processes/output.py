"""Keep the terminal to the first process."""

from __future__ import annotations

import io
import os
import sys


def only_errors() -> None:
    """Discard standard output, and draw no progress bars; errors are still printed."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _NotATerminal(sys.stderr.buffer, "utf-8", "backslashreplace", line_buffering=True)


class _NotATerminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return False
