"""Read rows of table files: TSV, CSV, and two aligned text files; select our columns of a row."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

from data.config import DataConfig
from data.errors import DataError
from data.sources.compressed import plain_name
from data.sources.formats.chats import refuse_chat
from data.sources.formats.markup import html_text
from data.sources.formats.table_dialect import Dialect, csv_rows, opening_line, swallows_rows
from data.sources.text_files import TextFile, lines

Columns = dict[str, tuple[str, str]]
"""Our name of a column -> (config key, name or number of the column in the file)."""

_LOOKED_AT = 1000  # lines that show whether a file is a table
_ENOUGH = 10  # rows after which a column of numbers counts as ids


def column_number(name: str, header: Sequence[str] | None, key: str, path: Path, default: int | None = None) -> int:
    """Return the index of a column. default: that of the name which nobody chose."""
    if header is not None and name in header:
        return list(header).index(name)
    if name.isdecimal() and int(name) > 0:
        return int(name) - 1
    if default is not None:
        return default
    if header is None:
        raise DataError(
            f"{key}={name}: {path} has no header; give the column's number (from 1), or set data.header=true"
        )
    raise DataError(f"{key}={name}: {path} has no such column; its header is: {', '.join(header)}")


def default_number(ours: str, dialect: Dialect) -> int:
    """Return the index of a column that nobody chose: the first, of targets the second."""
    numbers = (number for number in count() if number not in dialect.no_text)
    return next(islice(numbers, int(ours == "target"), None))


def column_places(
    first_line: Sequence[str], columns: Columns, header: bool, path: Path, dialect: Dialect
) -> dict[str, int]:
    """Return the index, from 0, of each column to read. `first_line`: the cells of the file's first line.

    Raises DataError if that line contains a column's name although `header` is False: the names would become a row, and
    wrong columns might be read.
    """
    titles = first_line if header else dialect.names or None
    places = {
        ours: column_number(
            name, titles, key, path, default_number(ours, dialect) if name == ours and not header else None
        )
        for ours, (key, name) in columns.items()
    }
    if titles is None:
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


def default_columns_note(columns: Columns, first: dict[str, str], dialect: Dialect) -> list[str]:
    """Return a note on columns read by default; it quotes the first row, which reveals a wrong choice."""
    if any(name != ours for ours, (_, name) in columns.items()):
        return []
    described = "; ".join(
        f"{ours} is column {default_number(ours, dialect) + 1}, which begins with {first[ours][:40]!r}"
        for ours in columns
    )
    return [f"{described} (change it with data.header=true and {', '.join(key for key, _ in columns.values())})"]


def dialect_notes(tables: Sequence[tuple[TextFile, str, Dialect]], header: bool) -> list[str]:
    """Return a note on each dialect, except on tables without a header in that of their kind. tables: the file, the
    kind (`csv` or `tsv`) and the dialect."""
    names: dict[str, list[str]] = {}
    for file, kind, dialect in tables:
        if header or (dialect.separator, dialect.quoted) != ({"csv": ",", "tsv": "\t"}[kind], kind == "csv"):
            _, _, first = next(_cells(file, dialect), (0, 0, []))
            titles = first if header else dialect.names
            described = f"header: {shorten(', '.join(titles))}" if titles else "no header"
            names.setdefault(f"{dialect.shown}, {described}", []).append(Path(file.path).name)
    return [
        f"{files[0]}{f' and {len(files) - 1} more' * (len(files) > 1)}: {description}"
        for description, files in names.items()
    ]


def shorten(text: str) -> str:
    """Return a text, or its beginning if it is long, for a message."""
    return text if len(text) <= 100 else f"{text[:100]}…"


def _cells(file: TextFile, dialect: Dialect) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the first line, the last line and the cells of each row, [] for a blank line. Raises DataError with the
    line on which a quote opens that is not closed as it should."""
    table = islice(lines(file), dialect.skipped, None)
    if not dialect.quoted:
        for number, line in enumerate(table, start=dialect.skipped + 1):
            yield number, number, line.rstrip("\n").split(dialect.separator) if line.strip() else []
        return
    literal = "write a quote of the text twice and enclose its cell in quotes, or set data.quoting=none"
    first = dialect.skipped + 1
    width = 0
    try:
        for last, cells, raw in csv_rows(table, dialect.separator, dialect.spaced):
            width = width or len(cells)
            if last + dialect.skipped > first and not dialect.chosen and swallows_rows(raw, width, dialect.separator):
                raise DataError(
                    f"{file.path}, line {first + opening_line(raw, dialect.separator, whole=True)}: the quote opened"
                    f" here is closed in line {last + dialect.skipped}, and the lines between look like rows; {literal}"
                    " if quotes are text, or data.quoting=csv if it is one cell with line breaks"
                )
            yield first, last + dialect.skipped, cells
            first = last + dialect.skipped + 1
    except csv.Error as error:
        problem, raw = error.args
        opened = first + opening_line(raw, dialect.separator)
        if "unexpected end" in problem:
            problem = "the quote opened here is never closed"
        elif "expected after" in problem:
            closed = first + raw.count("\n", 0, -1)
            where = "" if closed == opened else f" in line {closed}"
            problem = f"the quote opened here is closed{where} before the end of its cell"
        way = f"{literal} if quotes are text"
        if '\\"' in raw:
            name = plain_name(Path(file.path))
            doubled = (
                f'sed \'s/\\\\"/""/g\' {shlex.quote(name.name)} > {shlex.quote(f"{name.stem}.fixed{name.suffix}")}'
            )
            way = f"it has quotes after a backslash, as MySQL writes them; to write them twice instead: {doubled}"
        raise DataError(f"{file.path}, line {opened}: not valid CSV ({problem}); {way}") from error


def table_rows(file: TextFile, dialect: Dialect, columns: Columns, header: bool) -> Iterator[dict[str, str]]:
    """Yield the rows of a table. A blank line is an empty row, except where quotes enclose cells.

    Raises DataError if a default column has only numbers, as ids do, and the file has other columns.
    """
    path = Path(file.path)
    places: dict[str, int] | None = None
    ids: list[str] = []  # columns that may be ids
    seen = 0
    both = False
    for number, last, fields in _cells(file, dialect):
        if not fields:
            if not dialect.quoted:
                yield dict.fromkeys(columns, "")
            continue
        if places is None:
            first_line = fields
            places = column_places(fields, columns, header, path, dialect)
            if header:
                continue
            if len(fields) > len(columns):
                ids = [ours for ours, (_, name) in columns.items() if name == ours]
        if len(fields) <= max(places.values()) or (dialect.separator != "\t" and any(fields[len(first_line) :])):
            raise _wrong_width(file, dialect, columns, places, number, last, fields, len(first_line))
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
        if dialect.html:
            row = {ours: html_text(cell) for ours, cell in row.items()}
        both = both or all(row.values())
        yield row
    if not both and "target" in columns and (fix := _one_sided(file)):
        raise DataError(f"{path}: no row has a text in both columns; {fix}")


def _wrong_width(
    file: TextFile,
    dialect: Dialect,
    columns: Columns,
    places: dict[str, int],
    number: int,
    last: int,
    fields: list[str],
    width: int,
) -> DataError:
    """Return the error for a row with too few or too many cells."""
    separator = "tab" if dialect.separator == "\t" else dialect.separator
    cells = f"{len(fields)} cell{'s' * (len(fields) > 1)} separated by {separator}"
    lines_read = f"line {number}: has {cells}" if last == number else f"lines {number} to {last}: have {cells}"
    content = f"{file.path}, {lines_read} ({shorten(' | '.join(fields))!r})"
    if len(fields) > max(places.values()):
        quotes = "enclose cells that contain one in double quotes" if dialect.quoted else "set data.quoting=csv"
        return DataError(f"{content}, but the first line has {width}; {quotes}, or set data.separator")
    ours = next(ours for ours, place in places.items() if place >= len(fields))
    key, name = columns[ours]
    fix = f"fix the line, or set {key} or data.separator"
    if last > number:
        fix = f"a quote that is opened in line {number} encloses line breaks; close it there, or set data.quoting=none"
    elif len(fields) == 1 == width and ours == "target":
        fix = _one_sided(file) or fix
    return DataError(f"{content}, but the {ours} is column {places[ours] + 1} ({key}={name}); {fix}")


def _one_sided(file: TextFile) -> str | None:
    """Return what to do with a file whose first lines have no two texts with a tab between them; None if some have."""
    texts = [line.strip() for line in islice(lines(file), _LOOKED_AT)]
    if not any(texts) or any("\t" in text for text in texts):
        return None
    below = f"grep '[^[:space:]]' {shlex.quote(Path(file.path).name)} | sed 's/[[:space:]]*$//' | paste - - > pairs.tsv"
    return (
        "the lines have no tab between two texts. If translations stand on the lines below their sentences:"
        f" {below}; if other signs stand between them, set data.separator; two files with a sentence on each line are"
        " read with data.path=a.en,b.ja"
    )


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
        value, exists = column_value(row, name)
        if not exists or isinstance(value, list):
            refuse_chat(row, where)
        if not exists:
            raise DataError(missing_column(key, name, where, row))
        picked[ours] = text_of(value, f"{key}={name}: {where}", name)
    return picked


def column_value(row: Any, name: str) -> tuple[Any, bool]:
    """Return the value of a column, and whether it exists. A dot may be part of its name, or lead into a nested
    column."""
    if not isinstance(row, dict):
        return None, False
    if name in row:
        return row[name], True
    for dot in re.finditer(r"\.", name):
        value, exists = column_value(row.get(name[: dot.start()]), name[dot.end() :])
        if exists:
            return value, True
    return None, False


def missing_column(key: str, name: str, where: str, row: dict[str, Any]) -> str:
    """Return the message about a column that a row does not have."""
    return f"{key}={name}: {where} has no such column; it has: {shorten(', '.join(column_names(row)))}"


def text_of(value: Any, where: str, name: str) -> str:
    """Return the text of a cell in the column `name`, "" for null. Raises DataError, which begins with `where`, if it
    is not text."""
    if value is None:
        return ""
    if isinstance(value, list) and value and isinstance(value[0], str):
        raise DataError(f'{where} has a list of texts there; join them, with jq for example: .{name} |= join("\\n")')
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
