"""Kill this process inside a chosen piece of work. Python imports this file at its start if its folder is on the path.

CHUMOKU_KILL is `<regular expression> <n> <m>`: the n-th time that a file whose path matches is opened for writing,
renamed, linked or deleted, m further function calls are made, and then the process receives SIGKILL. Unlike a timer,
this hits the same piece of work on a loaded machine.
"""

import os
import re
import signal
import sys
from types import FrameType

EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.symlink", "os.link", "os.truncate", "shutil.rmtree"}


def watch(place: str, times: int, calls: int) -> None:
    """Prepare the kill."""
    pattern = re.compile(place)

    def matches(event: str, arguments: tuple) -> bool:
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and mode[:1] in "wax") or bool(flags & (os.O_WRONLY | os.O_RDWR))
            return writes and bool(pattern.search(str(path)))
        return event in EVENTS and any(pattern.search(str(argument)) for argument in arguments[:2])

    def on_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls -= event in ("call", "c_call")
        if calls < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_event(event: str, arguments: tuple) -> None:
        nonlocal times
        if times and (event == "open" or event in EVENTS) and matches(event, arguments):
            times -= 1
            if not times:
                sys.setprofile(on_call)

    sys.addaudithook(on_event)


if "CHUMOKU_KILL" in os.environ:
    *words, times, calls = os.environ.pop("CHUMOKU_KILL").split(" ")
    watch(" ".join(words), int(times), int(calls))
