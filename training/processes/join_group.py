"""Join the process group of torchrun, if it has started this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from training.processes.single_process import SINGLE, Processes


@contextmanager
def opened_processes() -> Iterator[Processes]:
    """Yield the processes of this run: all workers of a torchrun launch, or this process alone."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield SINGLE
        return
    from training.processes.process_group import opened_group

    with opened_group() as group:
        yield group
