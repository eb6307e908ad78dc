"""Read rows of running text: whole documents, paragraphs or lines of plain text files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from data.sources.text_files import TextFile, lines


def fragments(files: Sequence[TextFile], start: int = 0, stop: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield (document number, line) for the characters [start, stop) of all files joined; the first and last line may
    be truncated."""
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
    current, parts = 0, list[str]()
    for number, part in fragments(files, start, stop):
        if number != current and parts:
            yield "".join(parts)
            parts = []
        current = number
        parts.append(part)
    if parts:
        yield "".join(parts)


def paragraphs(files: Sequence[TextFile]) -> Iterator[str]:
    """Yield paragraphs without a final newline; blank lines and ends of files separate paragraphs."""
    for file in files:
        parts: list[str] = []
        for line in lines(file.path):
            if line.strip():
                parts.append(line)
            elif parts:
                yield "".join(parts).rstrip("\n")
                parts = []
        if parts:
            yield "".join(parts).rstrip("\n")


def text_lines(files: Sequence[TextFile]) -> Iterator[str]:
    """Yield lines without their newline; empty lines are skipped."""
    for file in files:
        for line in lines(file.path):
            if text := line.rstrip("\n"):
                yield text
