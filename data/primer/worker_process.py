"""Draw rows in a worker process: `python -m data.primer.worker_process KIND SEED FIRST EVERY` writes chunks to a pipe."""

from __future__ import annotations

import os
import sys
from itertools import count

from data.cpu_cores import uncollected
from data.primer.corpus import KINDS
from data.primer.stream import Stream, send, share


def main() -> None:
    """Write the chunks FIRST, FIRST + EVERY, … until the pipe is closed."""
    kind, *numbers = sys.argv[1:]
    seed, first, every = map(int, numbers)
    stream = Stream(seed)
    try:
        with uncollected():
            for number in count(first, every):
                send(sys.stdout.buffer, share(KINDS[kind], stream, number))
    except BrokenPipeError:
        os._exit(0)  # without flushing into the closed pipe


if __name__ == "__main__":
    main()
