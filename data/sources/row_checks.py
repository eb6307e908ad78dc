"""Leave out empty rows, and count pairs that are probably no translations: their sides are equal, without letters, or
in each other's script."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from data.language_scripts import LANGUAGE_SCRIPTS

Row = dict[str, Any]

_ASIAN = "Chinese or Japanese"
_SCRIPTS = {
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff",
    "Tamil": "\u0b80-\u0bff",
    "Thai": "\u0e00-\u0e7f",
    "Georgian": "\u10a0-\u10ff",
    "Hangul": "\uac00-\ud7af\u1100-\u11ff",
    _ASIAN: "\u3005-\u3007\u3041-\u30ff\u3400-\u9fff",
}
_OTHER = re.compile(f"[{''.join(_SCRIPTS.values())}]")
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = 1.5
"""Bytes for each character below which a text counts as Latin: other letters have two or three."""

_MANY = 0.05
"""Share of the pairs from which on odd ones are a warning with examples."""
_RETURNS = re.compile(r"\r+\n")
_SHOWN = 40  # characters of an example
_VALUES = 10_000  # pairs whose different texts are counted
_ENOUGH = 20  # least number of pairs for a warning about few different texts
_DIFFERENT = 0.05
"""Share of different texts below which a side is rather a column of names."""
_KEY = re.compile(r"[\"'`]?[\w.-]{2,}[\"'`]? *[:=]")


def without_empty_sides(
    rows: Iterable[Row],
    task: str,
    split: str,
    notes: list[str],
    most: int | None = None,
    languages: tuple[str, str] = ("", ""),
) -> Iterator[Row]:
    """Yield up to `most` rows without an empty side; white space around both sides of a pair is stripped. What is left
    out, and odd pairs, are counted in notes. languages: what the files or columns are called."""
    rows_kept = dropped = 0
    odd = OddPairs()
    for row in rows:
        if any("\r\n" in text for text in row.values()):  # in cells of tables and JSON; files of text have none left
            row = {name: _RETURNS.sub("\n", text) for name, text in row.items()}
        if task == "translate":
            row = row | {"source": row["source"].strip(), "target": row["target"].strip()}
        if all(row[name] for name in (("source", "target") if task == "translate" else ("text",))):
            if task == "translate":
                odd.count(row["source"], row["target"])
            yield row
            rows_kept += 1
            if rows_kept == most:  # before reading the next row
                break
        else:
            dropped += 1
    if dropped:
        what = "pairs with an empty side" if task == "translate" else "empty rows"
        notes.append(f"{split}: {dropped:,} {what} were left out")
    notes += odd.notes(split, languages)


class OddPairs:
    """Numbers of pairs by their kinds, with the first two of each kind."""

    def __init__(self) -> None:
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._different: tuple[set[str], set[str]] = set(), set()
        self._keys: set[str] = set()
        self._total = self._in_pieces = 0

    def count(self, source: str, target: str) -> None:
        """Count a pair."""
        self._total += 1
        if self._total <= _VALUES:
            self._different[0].add(source)
            self._different[1].add(target)
        self._in_pieces += "▁" in source or "@@" in source
        if source == target:
            kind = "equal", ""
        elif (key := _KEY.match(source)) and target.startswith(key[0]) and self._is_new(key[0]):
            kind = "same key", ""
        elif not (_has_letter(source) and _has_letter(target)):
            kind = "no letters", ""
        else:
            kind = script(source), script(target)
        number = self._kinds[kind] = self._kinds[kind] + 1
        if number <= 2:
            self._first.setdefault(kind, []).append((source, target))

    def _is_new(self, key: str) -> bool:
        """Whether no pair before began so. The speakers of a dialogue come again and again, keys do not."""
        number_known = len(self._keys)
        if number_known < _VALUES:
            self._keys.add(key)
        return len(self._keys) > number_known or number_known >= _VALUES

    def notes(self, split: str, languages: tuple[str, str] = ("", "")) -> list[str]:
        """Return a line on odd pairs, none if there are none, and one on languages that the sides are not in."""
        total = self._total
        written = {kind: number for kind, number in self._kinds.items() if kind[1]}
        usual = max(written, key=written.__getitem__, default=("", ""))
        source, target = usual if 2 * written.get(usual, 0) > total else ("", "")
        kinds = {"with equal sides": [("equal", "")], "without letters on a side": [("no letters", "")]}
        kinds["that begin with the same key"] = [("same key", "")]
        if source != target:
            kinds["with source and target swapped, by their scripts"] = [(target, source)]
            kinds["with both sides in one script"] = [kind for kind in written if kind[0] == kind[1]]
        counts = {what: sum(map(self._kinds.__getitem__, group)) for what, group in kinds.items()}
        messages = []
        if any(counts.values()):
            listed = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
            worst = max(counts, key=counts.__getitem__)
            examples = [pair for kind in kinds[worst] for pair in self._first.get(kind, [])][:2]
            quoted = " and ".join(f"{a[:_SHOWN]!r} → {b[:_SHOWN]!r}" for a, b in examples)
            many = counts[worst] >= _MANY * total
            messages.append(f"{split}: {'warning: ' * many}of {total:,} pairs {listed}{f', such as {quoted}' * many}")
        for side, texts in zip(("source", "target"), self._different, strict=True):
            looked_at = min(total, _VALUES)
            if looked_at >= _ENOUGH and len(texts) < _DIFFERENT * looked_at:
                quoted = ", ".join(repr(text[:_SHOWN]) for text in sorted(texts)[:2])
                messages.append(
                    f"{split}: warning: in {looked_at:,} pairs the {side} has only {len(texts)} different values"
                    f" ({quoted} …): is it the right column or file?"
                )
        if 2 * self._in_pieces > total:
            messages.append(
                f"{split}: warning: the texts are cut into pieces already (▁ or @@), which a model would learn and"
                " write; give the texts from before"
            )
        codes = (re.split("[.]", name.lower())[-1].partition("-")[0] for name in languages)
        expected = tuple(_ASIAN if code in ("ja", "zh") else LANGUAGE_SCRIPTS.get(code) for code in codes)
        if None not in expected and expected != usual and expected == usual[::-1]:
            messages.append(
                f"{split}: warning: the sources, called {languages[0]}, are in {source} letters, and the targets,"
                f" called {languages[1]}, in {target} ones: are they swapped?"
            )
        return messages


def _has_letter(text: str) -> bool:
    return text[0].isalpha() or _LETTER.search(text) is not None


def script(text: str) -> str:
    """Return the script of a text with letters, by its first letter that is not Latin."""
    if text.isascii() or len(text.encode()) < _LATIN * len(text):
        return "Latin"
    letter = _OTHER.search(text)
    return _script_of(letter[0]) if letter else "Latin"


@cache
def _script_of(letter: str) -> str:
    return next(name for name, letters in _SCRIPTS.items() if re.match(f"[{letters}]", letter))
