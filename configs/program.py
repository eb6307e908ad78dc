"""What all commands of the project share: UTF-8 on their streams, one line for an error, exit codes, Ctrl-C while they
start."""

from __future__ import annotations

import io
import os
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from configs.errors import UserError


def check_system() -> None:
    """Leave with one line where the program cannot run: Windows lacks the signals and symbolic links that a
    run needs."""
    if sys.platform == "win32":
        complain("Windows is not supported; WSL, the Windows Subsystem for Linux, is")
        raise SystemExit(2)


def expanded(path: str) -> Path:
    """A path with a leading `~` or `~name` replaced by that home folder; an unknown name stays, and is not found."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (Path's raises RuntimeError for an unknown name)


def utf8(argument: str) -> str:
    """A command-line argument, its bytes read as UTF-8 whatever the locale; bytes that are not become lone
    surrogates."""
    return os.fsencode(argument).decode("utf-8", "surrogateescape")


def exit_code_of(action: Callable[[], object]) -> int:
    """Run a command and return its exit code: 0, or 2 with one line on standard error for each message of a UserError.

    What the operating system refuses (OSError) is such a line too. 130 after Ctrl-C, 141 when the reader of our output
    has gone.
    """
    speak_utf8()
    try:
        action()
        print(end="", flush=True)  # a full disk or a closed pipe shows here, not at exit
    except UserError as error:
        for message in messages_of(error):
            complain(message)
        return 2
    except BrokenPipeError:
        silence(sys.stdout)
        return 141
    except OSError as error:  # a full disk, a name that is too long, a folder without permission
        try:
            print(end="", flush=True)
        except OSError:
            silence(sys.stdout)
        for message in messages_of(error):
            complain(message)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def run_guarded(action: Callable[[], object]) -> None:
    """Run a command, and leave with its exit code unless all went well."""
    if code := exit_code_of(action):
        raise SystemExit(code)


def speak_utf8() -> None:
    """Read and write UTF-8 whatever the locale; bytes that are not UTF-8 come out as they went in. A closed output
    takes anything."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    streams = ((sys.stdin, "surrogateescape"), (sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace"))
    for stream, errors in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def silence(stream: TextIO) -> None:
    """Throw away what is still to be written to a stream whose reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def messages_of(error: Exception) -> list[str]:
    """What an error says that the user can mend: a message for each problem."""
    if isinstance(error, OSError):
        return [f"{error.filename or 'output'}: {error.strerror or error}"]
    return [str(message) for message in error.args]


def complain(message: str) -> None:
    """One line on standard error; line breaks, and whatever else would steer a terminal, are written as their
    `[code]`."""
    # Spaces of other widths, as in Japanese file names, are not "printable" and steer nothing.
    harmless = (character.isprintable() or unicodedata.category(character) == "Zs" for character in message)
    shown = "".join(c if fine else f"[{ord(c):X}]" for c, fine in zip(message, harmless, strict=True))
    print(f"error: {shown}", file=sys.stderr)


@contextmanager
def importing() -> Iterator[None]:
    """While slow modules are imported Ctrl-C ends the process at once: an exception would be a traceback, or be lost in
    a callback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # one that is ignored (a background job) stays ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
