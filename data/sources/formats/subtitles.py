"""Read two subtitle files (SubRip, WebVTT) as pairs of cues that are shown at the same time."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data.errors import DataError
from data.sources.text_files import TextFile, lines

_TIMES = re.compile(
    r"\s*(\d{1,4}:)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})\s*-->\s*(\d{1,4}:)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})(?!\d)"
)
_MARKS = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
"""Italics, colours, voices and positions."""
_TOGETHER = 0.5
"""Cues belong together if they share this part of the time of the shorter one."""
_MOST = 3
"""Cues on one side of a pair. More of them chained together are a sign that the files belong to different cuts."""
_FEW = 0.25
"""Share of the cues that must have a counterpart."""


@dataclass(frozen=True)
class Cue:
    """A text, and when it is shown, in seconds."""

    start: float
    end: float
    text: str


def cues(file: TextFile) -> list[Cue]:
    """Return the cues of a file in the order of their times, without marks; each text is one line. Raises DataError if
    there are none.

    Only WebVTT says that a blank line ends a cue; in SubRip files cues have some inside.
    """
    result: list[Cue] = []
    webvtt = numbered = False
    times: tuple[float, float] | None = None
    text: list[str] = []

    def end() -> None:
        if times and text:
            result.append(Cue(*times, " ".join(text)))

    for line in lines(file):
        if match := _TIMES.match(line):
            if text and text[-1].isdecimal() and (numbered or webvtt):  # the number of this cue
                text.pop()
            end()
            times, text = (_seconds(*match.groups()[:4]), _seconds(*match.groups()[4:])), []
        elif not line.strip():
            if webvtt:  # a name or a note may follow, which is not text
                end()
                times, text = None, []
        elif not times:
            webvtt, numbered = webvtt or line.startswith("WEBVTT"), line.strip("\ufeff \n").isdecimal()
        elif content := html.unescape(_MARKS.sub("", line)).strip():
            text.append(content)
    end()
    if not result:
        raise DataError(f"{file.path}: has no cues (lines like 00:00:01,000 --> 00:00:02,500, then a text)")
    return sorted(result, key=lambda cue: cue.start)


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    return 3600 * int((hours or "0:")[:-1]) + 60 * int(minutes) + int(seconds) + int(fraction.ljust(3, "0")) / 1000


def subtitle_rows(source: TextFile, target: TextFile) -> Iterator[dict[str, str]]:
    """Yield the texts that are shown together: one cue on each side, or up to three where a sentence is divided
    differently. Cues without a counterpart have an empty other side."""
    ours, theirs = cues(source), cues(target)
    groups = matched(ours, theirs)
    pairs = sum(bool(first and second) for first, second in groups)
    if pairs < _FEW * min(len(ours), len(theirs)):
        raise DataError(
            f"{source.path}, {target.path}: only {pairs} of {len(ours)} and {len(theirs)} cues are shown at the same"
            " time; are they of the same film and cut? Shift the times of one of them first"
        )
    for group in groups:
        texts = [" ".join(cue.text for cue in side) if len(side) <= _MOST else "" for side in group]
        yield dict(zip(("source", "target"), texts, strict=True))


def matched(sources: Sequence[Cue], targets: Sequence[Cue]) -> list[tuple[list[Cue], list[Cue]]]:
    """Return groups of cues of both sides that overlap in time, in order."""
    groups: list[tuple[list[Cue], list[Cue]]] = []
    group: tuple[list[Cue], list[Cue]] = [], []
    timeline = sorted(
        [(cue.start, 0, cue) for cue in sources] + [(cue.start, 1, cue) for cue in targets], key=lambda item: item[:2]
    )
    for _, side, cue in timeline:
        if not any(_overlap(cue, other) for other in group[1 - side][-_MOST:]):
            if any(group):
                groups.append(group)
            group = [], []
        group[side].append(cue)
    return [*groups, group]


def _overlap(first: Cue, second: Cue) -> bool:
    shared = min(first.end, second.end) - max(first.start, second.start)
    return shared > 0 and shared >= _TOGETHER * min(first.end - first.start, second.end - second.start)
