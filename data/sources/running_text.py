"""Read rows of running text: whole documents, paragraphs or lines of plain text files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from data.sources.text_files import SEPARATOR, TextFile, lines

T = TypeVar("T")


def pieces(file: TextFile) -> Iterator[tuple[int, str | None]]:
    """Yield each line, or its parts between separators of documents, and None for a separator; each with its number of
    characters. A line end after a separator belongs to it."""
    for line in lines(file):
        if "<|end" not in line:
            yield len(line), line
            continue
        for number, part in enumerate(SEPARATOR.split(line)):
            if part:
                yield len(part), None if number % 2 or (number and part == "\n") else part


def fragments(files: Sequence[TextFile], start: int = 0, stop: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield (document number, line) for the characters [start, stop) of all files; the outer lines may be truncated.
    Blank lines between a separator and its document are left out."""
    first = number = 0
    for file in files:
        number += 1
        if first + file.characters <= start:
            first += file.characters
            continue
        position = first
        separated = False
        for length, piece in pieces(file):
            if stop is not None and position >= stop:
                return
            cut = piece and piece[max(0, start - position) : None if stop is None else stop - position]
            if piece is None:
                number, separated = number + 1, True
            elif cut and not (separated and cut.isspace()):
                yield number, cut
                separated = False
            position += length
        first += file.characters


def documents(files: Sequence[TextFile], start: int = 0, stop: int | None = None) -> Iterator[str]:
    """Yield documents, or their parts inside [start, stop)."""
    for _, parts in groupby(fragments(files, start, stop), key=itemgetter(0)):
        yield "".join(part for _, part in parts)


def paragraphs(files: Sequence[TextFile]) -> Iterator[str]:
    """Yield paragraphs without a final newline; blank lines, separators and ends of files separate paragraphs."""
    for file in files:
        pieces_of_file = (piece or "" for _, piece in pieces(file))
        for blank, part in groupby(pieces_of_file, key=lambda line: not line.strip()):
            if not blank:
                yield "".join(part).rstrip("\n")


def text_lines(files: Sequence[TextFile]) -> Iterator[str]:
    """Yield lines without their newline; an empty line is an empty row."""
    for file in files:
        for _, piece in pieces(file):
            if piece is not None:
                yield piece.rstrip("\n")


def separator_note(files: Iterable[TextFile]) -> list[str]:
    """Return a note on the separators of documents in files."""
    count = sum(file.separators for file in files)
    return [f"{count:,} <|endoftext|> separate documents, and are not part of the text"] if count else []


def chunks(items: Iterable[T], size: Callable[[T], int], most: int, count: int | None = None) -> Iterator[list[T]]:
    """Yield the items in lists, each of which ends when its total size reaches `most` or it has `count` items."""
    chunk: list[T] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= most or len(chunk) == count:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
