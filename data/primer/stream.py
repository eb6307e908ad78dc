"""The rows along a stream of random numbers, drawn by several processes and yet the same rows in the same order.

A row is a function of the place in the stream at which it begins. So a process may begin anywhere: the first rows that
it draws there are not rows of the stream, but soon one of them begins where a row of the stream begins, and from there
on all are the same, as a self-synchronising code read from its middle falls into step. Each process draws every n-th
share of the numbers, from the share's first number on; what it takes to fall into step, a dozen rows, is drawn again.
"""

from __future__ import annotations

import marshal
import random
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import IO, Any

from data.errors import DataError
from data.primer.grammar.choice import Chooser

Row = dict[str, Any]
Combinations = Sequence[tuple[str, ...]]
Drawn = tuple[Row, Combinations]
"""A row and the combinations of words in it."""
Share = tuple[list[int], list[Drawn], int]
"""Where each of its rows begins, the rows, and where the last one ends."""
Draw = Callable[[Chooser], Drawn]

SHARE = 1 << 15
"""Random numbers in a share: about 1500 stories or 3400 sentences, a third of a second."""
_ROOT = Path(__file__).resolve().parents[2]


class Stream(random.Random):
    """The random numbers of a seed, counted."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.position = 0

    def random(self) -> float:
        """The next number."""
        self.position += 1
        return super().random()

    def skip(self, position: int) -> None:
        """Go on to a place, unless it was passed already."""
        following = super().random
        for _ in range(self.position, position):
            following()
        self.position = max(self.position, position)


def drawn(kind: str, draw: Draw, seed: int, processes: int = 0) -> Generator[Drawn, None, None]:
    """Rows without end, the same however many other processes draw them (0: none). `kind` is the name that these know
    `draw` by."""
    stream = Stream(seed)
    chooser = Chooser(stream)
    if processes == 0:
        while True:
            yield draw(chooser)
    with _workers(kind, seed, processes) as answers:
        for number, answer in enumerate(cycle(answers), start=1):
            starts, rows, end = _received(answer)
            places = {start: place for place, start in enumerate(starts)}
            while stream.position not in places and stream.position < number * SHARE:
                yield draw(chooser)
            if stream.position in places:
                yield from rows[places[stream.position] :]
                stream.skip(end)


def share(draw: Draw, stream: Stream, number: int) -> Share:
    """The rows that begin in a share of the stream when one begins at its first number, or where this process is, if
    later."""
    stream.skip(number * SHARE)
    chooser = Chooser(stream)
    starts, rows = [], []
    while stream.position < (number + 1) * SHARE:
        starts.append(stream.position)
        rows.append(draw(chooser))
    return starts, rows, stream.position


@contextmanager
def _workers(kind: str, seed: int, processes: int) -> Iterator[list[IO[bytes]]]:
    """What each process writes. They end with the block, and by themselves when nobody reads any more.

    Programs of their own: neither would fork() be safe beside torch's threads, nor do they import what the caller did.
    """
    with ExitStack() as stack:
        running = []
        for first in range(processes):
            process = subprocess.Popen(
                [sys.executable, "-m", "data.primer.worker", kind, str(seed), str(first), str(processes)],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the caller
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        yield [process.stdout for process in running if process.stdout]


def send(answer: IO[bytes], found: Share) -> None:
    """Write a share to a pipe, its length first: marshal by itself would read a pipe byte by byte."""
    written = marshal.dumps(found)
    answer.write(len(written).to_bytes(8, "little") + written)
    answer.flush()


def _received(answer: IO[bytes]) -> Share:
    length = int.from_bytes(answer.read(8), "little")
    written = answer.read(length)
    if not length or len(written) < length:
        raise DataError(
            "a process that draws the embedded corpus was ended (by itself, then it says why above); start again"
        )
    found: Share = marshal.loads(written)
    return found
