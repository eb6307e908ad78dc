"""Draw rows from a stream of random numbers; the rows and their order do not depend on the number of processes.

A row is a function of its start position in the stream. A process that starts at an arbitrary position draws wrong rows
until a row begins at a row boundary of the stream; all later rows are correct, as with a self-synchronising code. Each
process draws every n-th chunk of the stream. The calling process redraws the dozen rows before synchronisation.
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
Drawn = tuple[Row, Combinations, tuple[str, str]]
"""A row, its combinations of words, and the English and Japanese text that no other row has, nor another split."""
Share = tuple[list[int], list[Drawn], int]
"""Rows of a chunk: start position of each row, the rows, and the position after the last row."""
Draw = Callable[[Chooser], Drawn]

SHARE = 1 << 15
"""Random numbers per chunk: about 1500 stories or 3400 sentences, drawn in a third of a second."""
_ROOT = Path(__file__).resolve().parents[2]


class Stream(random.Random):
    """Random number generator that counts its position in the stream."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.position = 0

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        self.position += 1
        return super().random()

    def skip(self, position: int) -> None:
        """Advance to a position, unless it has already been passed."""
        following = super().random
        for _ in range(self.position, position):
            following()
        self.position = max(self.position, position)


def drawn(kind: str, draw: Draw, seed: int, processes: int = 0) -> Generator[Drawn, None, None]:
    """Yield rows endlessly, the same for any number of worker processes. `kind` identifies `draw` in the workers."""
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
    """Draw the rows that begin in chunk `number` of the stream, or after the current position if that is later."""
    stream.skip(number * SHARE)
    chooser = Chooser(stream)
    starts, rows = [], []
    while stream.position < (number + 1) * SHARE:
        starts.append(stream.position)
        rows.append(draw(chooser))
    return starts, rows, stream.position


@contextmanager
def _workers(kind: str, seed: int, processes: int) -> Iterator[list[IO[bytes]]]:
    """Start worker processes and yield their output pipes. The workers end with the block or with the calling process.

    The workers are separate programs, because fork() is unsafe with torch's threads, and processes spawned by
    `multiprocessing` import the caller's main module, including torch (docs/log.md).
    """
    with ExitStack() as stack:
        running = []
        for first in range(processes):
            process = subprocess.Popen(
                [sys.executable, "-m", "data.primer.worker_process", kind, str(seed), str(first), str(processes)],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Only the caller receives Ctrl-C.
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        yield [process.stdout for process in running if process.stdout]


def send(answer: IO[bytes], chunk: Share) -> None:
    """Write a chunk to a pipe, preceded by its length, because marshal would read the pipe byte by byte."""
    written = marshal.dumps(chunk)
    answer.write(len(written).to_bytes(8, "little") + written)
    answer.flush()


def _received(answer: IO[bytes]) -> Share:
    length = int.from_bytes(answer.read(8), "little")
    written = answer.read(length)
    if not length or len(written) < length:
        raise DataError(
            "a process that generates the built-in corpus ended (its error message, if any, is above); start again"
        )
    chunk: Share = marshal.loads(written)
    return chunk
