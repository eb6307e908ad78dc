"""Code shared by all programs of the project: UTF-8 streams, one-line errors, exit codes, Ctrl-C during start-up."""

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

from attention_maps.base.errors import UserError
from attention_maps.base.truncated_files import report_truncated_files


def check_system() -> None:
    """Exit with a one-line error on native Windows, which lacks the signals and symbolic links that a run needs."""
    if sys.platform == "win32":
        complain("Windows is not supported; WSL, the Windows Subsystem for Linux, is")
        raise SystemExit(2)


def expanded(path: str) -> Path:
    """Return a path with a leading `~` or `~name` replaced by that home folder; an unknown name is kept."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (Path's raises RuntimeError for an unknown name)


def utf8(argument: str) -> str:
    """Decode a command-line argument as UTF-8 whatever the locale; invalid bytes become lone surrogates."""
    return os.fsencode(argument).decode("utf-8", "surrogateescape")


def exit_code_of(action: Callable[[], object]) -> int:
    """Run a command and return its exit code: 0; 2 after a UserError or OSError, printed as one line per message; 130
    after Ctrl-C; 141 if the reader of standard output has closed it."""
    speak_utf8()
    try:
        action()
        print(end="", flush=True)  # report a full disk or a closed pipe here, not at exit
    except BrokenPipeError:
        silence(sys.stdout)
        return 141
    except (UserError, OSError) as error:  # OSError: a full disk, a name that is too long, a folder without permission
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
    """Run a command; on failure, exit with its exit code."""
    report_truncated_files()
    if code := exit_code_of(action):
        raise SystemExit(code)


def speak_utf8() -> None:
    """Read and write UTF-8 whatever the locale, passing other bytes through. Discard output if its stream is closed."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    streams = ((sys.stdin, "surrogateescape"), (sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace"))
    for stream, errors in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def silence(stream: TextIO) -> None:
    """Discard the remaining output of a stream whose reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def messages_of(error: Exception) -> list[str]:
    """Return the messages of an error that the user can fix, one per problem."""
    if isinstance(error, OSError):
        return [f"{error.filename or 'output'}: {error.strerror or error}"]
    return [str(message) for message in error.args]


LONGEST_MESSAGE = 2000
"""Characters of an error message; the middle of a longer one, which quotes a huge value, is omitted."""


def complain(message: str) -> None:
    """Print one line to standard error; line breaks and other control characters are printed as `[code]`."""
    # Full-width spaces, as in Japanese file names, are not "printable" but harmless.
    harmless = (character.isprintable() or unicodedata.category(character) == "Zs" for character in message)
    line = "".join(c if fine else f"[{ord(c):X}]" for c, fine in zip(message, harmless, strict=True))
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE // 2]} […] {line[-LONGEST_MESSAGE // 2 :]}"
    print(f"error: {line}", file=sys.stderr)


@contextmanager
def importing() -> Iterator[None]:
    """Let Ctrl-C end the process at once during slow imports: an exception could print a traceback or be lost."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # keep an ignored signal (background job) ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
