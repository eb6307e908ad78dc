"""The dialect of a table: which character separates its cells, and whether quotes enclose them or are text."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from data.config import SEPARATORS
from data.sources.text_files import TextFile, lines

_SAMPLE = 1 << 20  # characters from which a dialect is recognised
_LINES = 1000  # of these from which a separator is recognised
_FEW = 10  # lines from which on a file named as tab-separated may be another table
_MOST = 0.9  # share of the lines that must have the same number of separators in such a file
_LONGEST_CELL = 2**31 - 1  # characters; the library's default of 131,072 is less than a book

_SETTING = re.compile(
    r"#(separator|html|tags|columns|notetype|deck|guid|if matches|(?:notetype|deck|tags|guid) column):(.*)|sep=(.)"
)
"""A line at the beginning of a text that Anki exports, https://docs.ankiweb.net/importing/text-files.html, or Excel."""
_ANKI_SEPARATORS = SEPARATORS | {"colon": ":", "space": " "}


@dataclass(frozen=True)
class Dialect:
    """How the lines of a table are divided into cells."""

    separator: str
    quoted: bool
    """Whether quotes enclose cells, which then may hold separators, line breaks and doubled quotes; otherwise quotes
    are characters of the text."""

    chosen: bool = False
    """Whether the quoting was set by the user."""

    spaced: bool = False
    """Whether spaces may stand between a separator and a quote."""

    skipped: int = 0
    """Lines of settings at the beginning, as Anki and Excel write them."""

    names: tuple[str, ...] = ()
    """Names of the columns in Anki's settings."""

    no_text: tuple[int, ...] = ()
    """Columns, from 0, that hold no text of a card but its deck, tags or id."""

    html: bool = False
    """Whether the cells are HTML, by Anki's settings."""

    @property
    def shown(self) -> str:
        """Return its description in a log line."""
        separator = "tab" if self.separator == "\t" else self.separator
        settings = f" after {self.skipped} line{'s' * (self.skipped > 1)} of settings" if self.skipped else ""
        return f"{separator} {'quoted' if self.quoted else 'with literal quotes'}{settings}"


@lru_cache(maxsize=1024)
def recognised(file: TextFile, kind: str, separator: str | None, quoting: str | None) -> Dialect:
    """Return the dialect of a `csv` or `tsv` file. separator, quoting: the settings of `DataConfig`, null: recognise.

    `csv`: the separator that stands equally often in most lines; quotes enclose cells. `tsv`: tabs if there are any.
    Between tabs, quotes are text, as in files for Moses, unless they are used as programs write them: around every
    cell, or around just the cells that contain a quote (doubled), a tab or a line break.
    """
    sample, size = [], 0
    for line in lines(file):
        sample.append(line)
        size += len(line)
        if size > _SAMPLE:
            break
    header = _settings(sample)
    sample = sample[len(header) :]
    facts = dict(header)
    sign = SEPARATORS.get(separator, separator) if separator else None
    if sign is None and "separator" in facts:
        sign = _ANKI_SEPARATORS.get(facts["separator"].strip().lower(), facts["separator"][:1])
    sign = sign or _separator(sample, kind)
    quoted = quoting == "csv" if quoting else bool(header) or sign != "\t" or _are_quoted(sample, size > _SAMPLE)
    quoted = quoted and len(sign) == 1
    special = [int(value) - 1 for key, value in header if key.endswith(" column") and value.strip().isdecimal()]
    return Dialect(
        sign,
        quoted,
        quoting is not None,
        quoted and _spaced(sample, sign),
        len(header),
        tuple(facts["columns"].split(sign)) if "columns" in facts else (),
        tuple(special),
        facts.get("html", "").strip() == "true",
    )


def _settings(sample: Sequence[str]) -> list[tuple[str, str]]:
    settings: list[tuple[str, str]] = []
    for line in sample:
        match = _SETTING.fullmatch(line.rstrip("\n"))
        if not match or (match[3] and settings):
            break
        settings.append(("separator", match[3]) if match[3] else (match[1], match[2]))
    return settings


def _separator(sample: Sequence[str], kind: str) -> str:
    """Return the separator that divides most rows into the same number of cells; in doubt that of the file's name."""
    sample = sample[:_LINES]
    if kind == "tsv" and (any("\t" in line for line in sample) or len(sample) < _FEW):
        return "\t"
    candidates = [*"\t;|,"] if kind == "csv" else [*_signs(sample), *"\t;|"]
    widths = {separator: _widths(sample, separator) for separator in candidates}
    if not any(
        width > 1 for counts in widths.values() for width in counts
    ):  # a quote is not closed: without quoted cells
        outside = _without_quoted(sample, "")
        widths = {separator: [line.count(separator) + 1 for line in outside] for separator in candidates}
    scores = {}
    for separator, counts in widths.items():
        usual = Counter(width for width in counts if width > 1).most_common(1)
        spaces = sum(line.count(separator + " ") for line in sample)  # in a sentence a space follows
        scores[separator] = usual[0][1] / len(counts) if usual else 0, -spaces
    best = max(scores, key=scores.__getitem__)
    if kind == "tsv":
        return best if scores[best][0] >= _MOST else "\t"
    return best if scores[best][0] > 0.5 else ","


def _signs(sample: Sequence[str]) -> list[str]:
    """Return the group of signs between spaces that is in most lines, such as `|||` and `+++$+++`."""
    counts = Counter(sign for line in sample for sign in set(re.findall(r"(?<=\s)[^\w\s\"]{2,}(?=\s)", line)))
    return [sign for sign, _ in counts.most_common(1)]


def _without_quoted(sample: Sequence[str], stead: str) -> list[str]:
    return [re.sub(r'"[^"\n]*(?:""[^"\n]*)*"', stead, line) for line in sample if line.strip()]


def _spaced(sample: Sequence[str], separator: str) -> bool:
    """Whether quotes follow separators after a space: `"a", "b"`."""
    edge = re.escape(separator)
    return separator != " " and any(
        re.search(rf"{edge} +\0({edge}|$)", line, re.MULTILINE) for line in _without_quoted(sample[:_LINES], "\0")
    )


def _widths(sample: Sequence[str], separator: str) -> list[int]:
    """Return the number of cells of each row, none if the quotes are not those of cells between such separators."""
    if len(separator) > 1:
        return [line.count(separator) + 1 for line in sample if line.strip()]
    widths = []
    try:
        for _, cells, _ in csv_rows(sample, separator, _spaced(sample, separator)):
            widths += [len(cells)] if cells else []
    except csv.Error as error:
        if not (len(sample) == _LINES and "unexpected end" in str(error)):
            return []
    return widths


def _are_quoted(sample: Sequence[str], cut: bool) -> bool:
    """Whether quotes enclose cells between tabs. cut: the file goes on after the sample."""
    if not any('"' in line for line in sample):
        return False
    rows: list[tuple[list[str], str]] = []
    try:
        rows += ((cells, raw) for _, cells, raw in csv_rows(sample, "\t"))
    except csv.Error as error:
        if not (cut and "unexpected end" in str(error)):
            return False
    usual = Counter(len(cells) for cells, _ in rows).most_common(1)[0][0] if rows else 0
    quoted = needed = plain = 0
    for number, (cells, raw) in enumerate(rows):
        if '"' not in raw:
            plain += number > 0 and any(cell and not _is_number(cell) for cell in cells)
            continue
        if raw.count("\n", 0, -1) and (len(cells) != usual or swallows_rows(raw, usual, "\t")):
            return False
        if len(cells) != usual and raw.count("\t") + 1 == usual:  # a quotation that ends in the next cell: "…⇥„…"
            return False
        for cell in re.findall(r'"[^"]*(?:""[^"]*)*"|[^\t\n]+', raw):
            if cell.startswith('"'):
                quoted += 1
                needed += bool(re.search(r'["\t\n]', cell[1:-1]))
            elif '"' in cell:
                return False
            else:
                plain += number > 0 and not _is_number(cell)
    return quoted > 0 and (needed == quoted or (plain == 0 and len(rows) > 1))


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?", cell.strip(), re.IGNORECASE) is not None


def csv_rows(table: Iterable[str], separator: str, spaced: bool = False) -> Iterator[tuple[int, list[str], str]]:
    """Yield (number of the last line, cells, text) of each row with quoted cells; a blank line has no cells. Raises
    csv.Error at a quote that is not closed, or closed inside a cell; its second argument is the text of the row."""
    csv.field_size_limit(_LONGEST_CELL)
    raw: list[str] = []

    def kept() -> Iterator[str]:
        for line in table:
            raw.append(line)
            yield line

    reader = csv.reader(kept(), delimiter=separator, skipinitialspace=spaced, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise csv.Error(str(error), "".join(raw)) from error
        yield reader.line_num, cells, "".join(raw)
        raw.clear()


def swallows_rows(raw: str, count: int, separator: str) -> bool:
    """Whether the lines of a row with line breaks look like rows of their own, each with `count` cells: a quote that
    was meant as text was closed by another."""
    if count < 2:
        return False
    rows = [line.split(separator) for line in raw.rstrip("\n").split("\n")]
    # After a comma in a sentence there is a space, or the line ends.
    return all(len(cells) == count and all(cell.strip() and not cell[0].isspace() for cell in cells) for cells in rows)


def opening_line(raw: str, separator: str, whole: bool = False) -> int:
    """Return the line, from 0, of a row on which a quote opens that is not closed at the end of a cell, or, if the
    `whole` row is valid, the first quote around a line break."""
    edge = re.escape(separator)
    enclosed = r'"[^"\n]*(?:""[^"\n]*)*"' if whole else r'"[^"]*(?:""[^"]*)*"'
    cell = re.compile(rf'(?:{enclosed}|[^"{edge}\n][^{edge}\n]*)?[{edge}\n]')
    place = 0
    while match := cell.match(raw, place):
        place = match.end()
    return raw.count("\n", 0, place)
