"""The collector of reference cycles, where it finds nothing and costs much."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without looking for cycles. Rows with spans are millions of lists and hold none: to look through them again and
    again takes a quarter of the time that drawing them does, and nine tenths of the time of reading them from a table.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
