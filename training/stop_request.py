"""Stop training at the end of a step when a signal asks for it."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Interrupted(BaseException):
    """Raised when a signal has stopped training and everything is saved; like KeyboardInterrupt, not an Exception."""

    def __init__(self, received: signal.Signals, *, by_all: bool = False) -> None:
        """by_all: whether all processes of the run have agreed to stop. If not, the signal may come from torchrun,
        which stops the remaining processes before it restarts all."""
        super().__init__(received.name)
        self.exit_code, self.by_all = 128 + received, by_all


class StopRequest:
    """Defers SIGINT, SIGTERM and SIGHUP to the end of the training step; a second signal has its default effect.

    A worker of torchrun may receive the same request twice, from the scheduler and from torchrun: it ignores further
    signals for some seconds (`pause`).
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, quiet: bool = False, pause: float = 0.0) -> None:
        """quiet: print nothing. pause: seconds after the first signal."""
        self.quiet, self.pause = quiet, pause
        self.ignored_until = math.inf
        self.received: signal.Signals | None = None
        self.raising = False

    def __enter__(self) -> StopRequest:
        # An ignored SIGHUP (nohup) stays ignored.
        wanted = [n for n in self.SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self.previous = {number: signal.signal(number, self.handle) for number in wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside the context, raise `Interrupted` immediately on a new or pending signal; for work that only reads."""
        self.raising = True
        try:
            if self.received:
                raise Interrupted(self.received)
            yield
        finally:
            self.raising = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """Record the signal; further signals have their default effect, after the pause."""
        if self.received is not None and time.monotonic() < self.ignored_until:
            return
        if self.received is not None or not self.pause:
            for signal_number, handler in self.previous.items():
                signal.signal(signal_number, handler)
        if self.received is not None:
            signal.raise_signal(number)
            return
        self.received, self.ignored_until = signal.Signals(number), time.monotonic() + self.pause
        # Not print, which is not reentrant. After a hang-up there is no terminal to write to.
        with suppress(OSError):
            os.write(2, b"" if self.quiet else b"\nstopping and saving; press Ctrl-C again to quit without saving\n")
        if self.raising:
            raise Interrupted(self.received)
