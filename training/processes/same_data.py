"""Check that all processes start from the same data."""

from __future__ import annotations

import socket
from collections.abc import Callable

from configs.errors import UserError
from training.processes.single_process import Processes


def check_same(what: str, value: Callable[[], object], processes: Processes) -> None:
    """Raise UserError if machines differ in a value, e.g. because each has prepared data in a cache of its own."""
    if processes.world == 1:
        return
    values = processes.gather(lambda: (value(), socket.gethostname()))
    expected, main = values[0]
    others = sorted({f"{name} (process {rank})" for rank, (other, name) in enumerate(values) if other != expected})
    if others:
        raise UserError(
            f"{what} of {', '.join(others)} differ from {main} (process 0): give all machines the same files and the"
            " same version of this program, or a shared data.cache"
        )
