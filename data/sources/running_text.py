"""Read rows of running text: whole documents, paragraphs or lines of plain text files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from data.sources.text_files import TextFile, lines

T = TypeVar("T")


def fragments(files: Sequence[TextFile], start: int = 0, stop: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield (document number, line) for the characters [start, stop) of all files; the outer lines may be truncated."""
    first = 0
    for number, file in enumerate(files):
        if first + file.characters <= start:
            first += file.characters
            continue
        position = first
        for line in lines(file.path):
            if stop is not None and position >= stop:
                return
            cut = line[max(0, start - position) : None if stop is None else stop - position]
            if cut:
                yield number, cut
            position += len(line)
        first += file.characters


def documents(files: Sequence[TextFile], start: int = 0, stop: int | None = None) -> Iterator[str]:
    """Yield documents, or their parts inside [start, stop)."""
    for _, parts in groupby(fragments(files, start, stop), key=itemgetter(0)):
        yield "".join(part for _, part in parts)


def paragraphs(files: Sequence[TextFile]) -> Iterator[str]:
    """Yield paragraphs without a final newline; blank lines and ends of files separate paragraphs."""
    for file in files:
        for blank, found in groupby(lines(file.path), key=lambda line: not line.strip()):
            if not blank:
                yield "".join(found).rstrip("\n")


def text_lines(files: Sequence[TextFile]) -> Iterator[str]:
    """Yield lines without their newline; an empty line is an empty row."""
    for file in files:
        for line in lines(file.path):
            yield line.rstrip("\n")


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
