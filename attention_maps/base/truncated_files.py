"""Report in one sentence that a file was truncated while it is memory-mapped (token files, rows, weights).

Reading behind the new end raises SIGBUS, which by default ends the process without a word. Python's own signal handlers
cannot be used: they run only after the faulting instruction, which is repeated for ever.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_installed: list[object] = []
"""Keeps the handler alive, which only the system knows."""


def report_truncated_files() -> None:
    """From now on, end the process after SIGBUS with exit code 2 and one line that names the file. Files of the run are
    written atomically, so the last checkpoint stays."""
    if not hasattr(signal, "SIGBUS") or _installed:
        return
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
    _installed.append(kind(_end))
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, kind], ctypes.c_void_p
        libc.signal(signal.SIGBUS, _installed[0])


def _end(number: int) -> None:
    try:
        names = ", ".join(truncated_files()) or "a memory-mapped file"
        reason = "was truncated, or its disk failed, while it was in use"
        advice = "restore it, or delete it if it is in the cache; a training run continues with resume="
        os.write(2, f"\nerror: {names}: {reason}: {advice}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(2)


def truncated_files() -> list[str]:
    """Return the files that are mapped beyond their end (Linux only)."""
    paths = []
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            span, _, offset, _, _, *path = line.split(maxsplit=5)
            if path and path[0].startswith("/"):
                start, end = (int(address, 16) for address in span.split("-"))
                with suppress(OSError):
                    if Path(path[0]).stat().st_size <= int(offset, 16) + end - start - os.sysconf("SC_PAGE_SIZE"):
                        paths.append(path[0])
    return list(dict.fromkeys(paths))
