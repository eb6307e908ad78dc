"""Read rows of JSON Lines files, or of a file with one JSON array of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from data.errors import DataError
from data.sources.tables import Columns, column_names, text_of
from data.sources.text_files import TextFile, lines


def json_rows(file: TextFile, columns: Columns) -> Iterator[dict[str, str]]:
    """Yield our columns of each object; a missing or null value gives "". Other columns may have any type.

    Raises DataError with the line (or, in an array, the number of the object) if something is not JSON, not an object
    or not text, and at the end if no object has one of the columns.
    """
    found: set[str] = set()
    names: list[str] = []
    for where, row in _objects(file):
        if not isinstance(row, dict):
            raise DataError(f"{where}: is not a JSON object such as {{{', '.join(_example(columns))}}}")
        names = names or column_names(row)
        picked = {}
        for ours, (key, name) in columns.items():
            value, there = _value(row, name)
            picked[ours] = text_of(value, f"{key}={name}: {where}")
            if there:
                found.add(ours)
        yield picked
    for ours, (key, name) in columns.items():
        if ours not in found:
            raise DataError(f"{key}={name}: {file.path} has no such column; it has: {', '.join(names)}")


def _objects(file: TextFile) -> Iterator[tuple[str, Any]]:
    """Yield the place of each value, for error messages, and the value."""
    read = ((number, line) for number, line in enumerate(lines(file), start=1) if line.strip())
    first = next(read, (0, ""))
    if first[1].lstrip().startswith("["):
        values = _parsed("".join(line for _, line in chain([first], read)), file.path)
        yield from ((f"{file.path}, object {place}", value) for place, value in enumerate(values, start=1))
        return
    for number, line in chain([first], read):
        where = f"{file.path}, line {number}"
        yield where, _parsed(line, where)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: cannot be read as json ({error})") from error


def _value(row: dict[str, Any], name: str) -> tuple[Any, bool]:
    """Return the value of a column, and whether it exists; `translation.en` names a nested column."""
    value: Any = row
    for step in name.split("."):
        if not isinstance(value, dict) or step not in value:
            return None, False
        value = value[step]
    return value, True


def _example(columns: Columns) -> Iterator[str]:
    return (f'"{name}": "…"' for _, name in columns.values())
