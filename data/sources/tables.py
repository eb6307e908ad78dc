"""Read rows of table files: TSV, CSV, and two aligned text files; select our columns of a row."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from data.config import DataConfig
from data.errors import DataError
from data.sources.text_files import TextFile, lines

Columns = dict[str, tuple[str, str]]
"""Our name of a column -> (config key, name or number of the column in the file)."""

_DEFAULT_NUMBERS = {"source": 1, "target": 2, "text": 1}
_LONGEST_CELL = 2**31 - 1  # characters of a CSV cell; the library's default of 131,072 is less than a book
_ENOUGH = 10  # rows after which a column of numbers counts as ids
_END = "\ufdd6end of the file"  # no text contains this noncharacter


def column_number(name: str, header: Sequence[str] | None, key: str, path: Path) -> int:
    """Return the index of a column; without a header the default is 0 for `text` and `source`, 1 for `target`."""
    if header is not None and name in header:
        return list(header).index(name)
    if name.isdecimal() and int(name) > 0:
        return int(name) - 1
    if header is None and name in _DEFAULT_NUMBERS:
        return _DEFAULT_NUMBERS[name] - 1
    if header is None:
        raise DataError(
            f"{key}={name}: {path} has no header; give the column's number (from 1), or set data.header=true"
        )
    raise DataError(f"{key}={name}: {path} has no such column; its header is: {', '.join(header)}")


def column_places(first_line: Sequence[str], columns: Columns, header: bool, path: Path) -> dict[str, int]:
    """Return the index, from 0, of each column to read. `first_line`: the cells of the file's first line.

    Raises DataError if that line contains a column's name although `header` is False: the names would become a row, and
    wrong columns might be read.
    """
    titles = first_line if header else None
    places = {ours: column_number(name, titles, key, path) for ours, (key, name) in columns.items()}
    if not header:
        names = [cell.strip() for cell in first_line]
        for ours, (_, name) in columns.items():
            numbered = name.isdecimal()  # then only the cell of that column can be its name
            cells = names[places[ours] : places[ours] + 1] if numbered else names
            if (ours if numbered else name).casefold() in map(str.casefold, cells):
                raise DataError(
                    f"{path}: the first line has the names of columns ({', '.join(names)}), not data: set"
                    " data.header=true"
                )
    return places


def default_columns_note(columns: Columns, first: dict[str, str]) -> list[str]:
    """Return a note on columns read by default; it quotes the first row, which reveals a wrong choice."""
    if any(name != ours for ours, (_, name) in columns.items()):
        return []
    found = "; ".join(
        f"{ours} is column {_DEFAULT_NUMBERS[ours]}, which begins with {first[ours][:40]!r}" for ours in columns
    )
    return [f"{found} (change it with data.header=true and {', '.join(key for key, _ in columns.values())})"]


def _csv_table(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the last line of a row, its cells); blank lines are skipped."""
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(chain(lines(file), [_END]))
    previous = 0  # last line of the previous row
    try:
        for fields in reader:
            if fields == [_END]:
                return
            if fields and _END in fields[-1]:
                raise DataError(
                    f"{file.path}, line {previous + 1}: not valid CSV (the quote opened here is never closed)"
                )
            previous = reader.line_num
            if fields:
                yield previous, fields
    except csv.Error as error:
        raise DataError(f"{file.path}, line {reader.line_num}: not valid CSV ({error})") from error


def table_rows(kind: str, file: TextFile, columns: Columns, header: bool) -> Iterator[dict[str, str]]:
    """Yield the rows of a `tsv` file (tab-separated, unquoted) or a `csv` file (comma-separated, with standard quoting:
    quoted cells may have commas and line breaks). A blank line of a `tsv` file is an empty row.

    Raises DataError if a default column has only numbers, as ids do, and the file has other columns.
    """
    path = Path(file.path)
    table: Iterable[tuple[int, list[str]]] = _csv_table(file)
    separator = "commas"
    if kind == "tsv":
        separator = "tabs"
        table = enumerate((line.rstrip("\n").split("\t") if line.strip() else [] for line in lines(file)), start=1)
    places: dict[str, int] | None = None
    ids: list[str] = []  # columns that may be ids
    seen = 0
    for number, fields in table:
        if not fields:
            yield dict.fromkeys(columns, "")
            continue
        if places is None:
            first_line = fields
            places = column_places(fields, columns, header, path)
            if header:
                continue
            if len(fields) > len(columns):
                ids = [ours for ours, (_, name) in columns.items() if name == ours]
        for ours, place in places.items():
            if place >= len(fields):
                key, name = columns[ours]
                raise DataError(
                    f"{path}, line {number}: there is no column {place + 1} ({key}={name}); "
                    f"the line has {len(fields)}, separated by {separator}. Fix the line or set {key}"
                )
        row = {ours: fields[place] for ours, place in places.items()}
        if ids:
            seen += 1
            if seen > 1:  # the first row may contain names
                ids = [ours for ours in ids if row[ours].strip().isdecimal()]
            if ids and seen == _ENOUGH:
                raise DataError(
                    f"{path}: column {places[ids[0]] + 1} is read as the {ids[0]} but has only numbers; the first"
                    f" line is: {', '.join(first_line)[:100]}. Set {' and '.join(key for key, _ in columns.values())}"
                    " (to numbers from 1, or with data.header=true to names)"
                )
        yield row


def aligned_rows(source: TextFile, target: TextFile) -> Iterator[dict[str, str]]:
    """Yield rows of two files with equal numbers of lines."""
    for first, second in zip(lines(source), lines(target), strict=True):
        yield {"source": first.rstrip("\n"), "target": second.rstrip("\n")}


def root_cause(error: BaseException) -> str:
    """Return the first line of the innermost exception."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def wanted_columns(config: DataConfig, task: str) -> Columns:
    """Return the columns to read for a task."""
    if task == "gpt":
        return {"text": ("data.text_column", config.text_column)}
    return {
        "source": ("data.source_column", config.source_column),
        "target": ("data.target_column", config.target_column),
    }


def pick(row: dict[str, Any], columns: Columns, where: str) -> dict[str, str]:
    """Select our columns of one row; `translation.en` names a nested column. Raises DataError if one is missing."""
    picked = {}
    for ours, (key, name) in columns.items():
        value: Any = row
        for step in name.split("."):
            if not isinstance(value, dict) or step not in value:
                raise DataError(f"{key}={name}: {where} has no such column; it has: {', '.join(column_names(row))}")
            value = value[step]
        picked[ours] = text_of(value, f"{key}={name}: {where}")
    return picked


def text_of(value: Any, where: str) -> str:
    """Return the text of a cell, "" for null. Raises DataError, which begins with `where`, if it is not text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where} has {type(value).__name__} there, not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:  # "\ud800" in JSON
            half = ord(value[error.start])
            raise DataError(f"{where} has half of a surrogate pair there (\\u{half:04x}), which is no text") from error
    return value


def column_names(row: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the names of all columns of a row; those of nested columns with dots."""
    names: list[str] = []
    for name, value in row.items():
        names += column_names(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return names
