"""Read the inputs of `generate.py`: standard input, or lines typed at a terminal."""

from __future__ import annotations

import contextlib
import io
import locale
import select
import sys
import time
from collections.abc import Iterable, Iterator
from typing import cast

from configs.errors import UserError
from data.sources.encodings import SAMPLE, advice, likely, seven_bit
from data.sources.paths.not_data import foreign_start

COMMANDS = ("help", "quit", "exit")

INPUT = {"gpt": "the beginning of a text (or nothing)", "translate": "a sentence to translate"}

HELP = """Type {input} and press Enter. Settings are passed at the start of the program: python generate.py --help
  help          shows this help
  quit, exit    leave, as does Ctrl-D
  Ctrl-C        interrupts the current output; at the prompt, it leaves
  " help"       a leading space turns one of these words into ordinary input"""

PATIENCE = 0.05
"""Total pause in seconds after which the lines so far are processed: more than a program's delays on a busy CPU."""


def standard_input() -> io.BufferedReader:
    """Return standard input. Raises UserError if it is closed."""
    if sys.stdin is None:
        raise UserError("set prompt=…, or pass text on standard input, which is closed")
    return cast(io.BufferedReader, sys.stdin.buffer)


def read_lines() -> Iterator[str | None]:
    """Yield the lines of standard input as they arrive, without LF, CR LF or byte order mark, and None before each wait
    for more. Raises UserError at a line that is not UTF-8, has NUL characters or begins a file of another kind, and if
    standard input cannot be read."""
    number = 0
    try:
        for raw in raw_lines():
            if raw is None:
                yield None
                continue
            number += 1
            if number == 1 and (what := foreign_start(raw)):
                raise UserError(f"standard input {what}")
            line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            text = line.removesuffix(b"\r\n").removesuffix(b"\n").decode()
            if "\0" in text or seven_bit(raw):
                way = advice("input.txt", raw[:SAMPLE], None) if likely(raw[:SAMPLE]) else "is it a binary file?"
                raise UserError(f"standard input: line {number} has characters that no text has; {way}")
            yield text
    except UnicodeDecodeError as error:
        where = f"line {number} is not UTF-8 (its byte {error.start + 1})"
        way = advice("input.txt", (raw or b"")[:SAMPLE], None)
        raise UserError(f"standard input: {where}; {way}") from error
    except OSError as error:
        raise UserError(f"standard input cannot be read: {error.strerror}") from error


def raw_lines() -> Iterator[bytes | None]:
    """Yield the lines of standard input with their LF, and None before each wait longer than PATIENCE."""
    stdin = standard_input()
    patience, parts = PATIENCE, list[bytes]()
    while True:
        start = time.monotonic()
        arrived, _, _ = select.select([stdin], [], [], patience)  # a file is always ready
        patience = max(0.0, patience - (time.monotonic() - start))
        if not arrived or not patience:
            yield None
            select.select([stdin], [], [])
            patience = PATIENCE
        block = stdin.read1(1 << 16)  # the capacity of a pipe
        if not block:
            break
        *whole, rest = block.split(b"\n")
        for end in whole:
            yield b"".join([*parts, end, b"\n"])
            parts = []
        if rest:
            parts.append(rest)
    if parts:
        yield b"".join(parts)


def up_to_failure(lines: Iterable[str | None], failures: list[UserError]) -> Iterator[str | None]:
    """Yield the lines before the first line that cannot be read; append the error of that line to `failures`."""
    try:
        yield from lines
    except UserError as error:
        failures.append(error)


def count_lines() -> int | None:
    """Return the number of lines if standard input is a file, which can be read twice; otherwise None."""
    stdin = standard_input()
    if not stdin.seekable() or not stdin.readable():
        return None
    start = stdin.tell()
    lines = sum(1 for _ in stdin)
    stdin.seek(start)
    return lines


def typed(task: str) -> Iterator[str]:
    """Yield lines typed at a terminal until `quit`, `exit` or the end of input; `help` lists the commands."""
    if locale.getencoding().lower() == "utf-8":  # in other encodings readline treats some letters as commands
        with contextlib.suppress(ImportError):  # line editing and history for input(), if Python was built with them
            import readline  # noqa: F401

    print(f"Type {INPUT[task]}. help lists the commands, quit leaves.", file=sys.stderr)
    while True:
        try:
            line = input("> " if sys.stdout.isatty() else "")
        except EOFError:
            print(file=sys.stderr)
            return
        if line in ("quit", "exit"):
            return
        if line == "help":
            print(HELP.format(input=INPUT[task]), file=sys.stderr)
        else:
            yield line.strip() if line.strip() in COMMANDS else line
