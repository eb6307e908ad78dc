"""Read rows of JSON: objects on lines of their own, an array of them, an object that holds them, or whole columns."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.sources.formats.chats import refuse_chat
from data.sources.tables import Columns, column_value, missing_column, shorten, text_of
from data.sources.text_files import TextFile, lines

_DEPTH = 4
_SPACE = re.compile(r"\s*")


def json_rows(file: TextFile, columns: Columns) -> Iterator[dict[str, str]]:
    """Yield our columns of each object; a missing or null value gives "". Other columns may have any type.

    Raises DataError with the line (or, in an array, the number of the object) if something is not JSON, not an object
    or not text, or is a chat, and at the end if no object has one of the columns.
    """
    present: set[str] = set()
    example: dict[str, Any] = {}
    for where, row in _objects(file, columns):
        if not isinstance(row, dict):
            raise DataError(f"{where}: is {_no_object(None if example else row, columns, file)}")
        example = example or row
        picked = {}
        for ours, (key, name) in columns.items():
            value, exists = column_value(row, name)
            if not exists or isinstance(value, list):
                refuse_chat(row, where, file.path)
            picked[ours] = text_of(value, f"{key}={name}: {where}", name)
            if exists:
                present.add(ours)
        yield picked
    for ours, (key, name) in columns.items():
        if ours not in present:
            raise DataError(missing_column(key, name, file.path, example) + _inside(example, name, file))


def _no_object(value: Any, columns: Columns, file: TextFile) -> str:
    """Return what a value is, instead of an object, and what to do."""
    if isinstance(value, list) and value and not any(isinstance(cell, dict | list) for cell in value):
        name = shlex.quote(Path(file.path).name)
        command = f"jq -r '(if (.[0] | type) == \"array\" then .[] else . end) | @csv' {name} > rows.csv"
        return f"an array, whose cells have no names; write them as a table, whose columns have numbers: {command}"
    return f"not a JSON object such as {{{', '.join(_example(columns))}}}"


def _inside(row: dict[str, Any], name: str, file: TextFile) -> str:
    """Return how to get the column out of a list of objects that a row holds, "" if it is in none."""
    for key, rows in _lists(row):
        if column_value(rows[0], name)[1]:
            quoted = shlex.quote(Path(file.path).name)
            command = f"jq -c '.. | (.{key})? // empty | .[]' {quoted} > rows.jsonl"
            return f". {name} is in the list {key}; write its rows to a file: {command}"
    return ""


def _objects(file: TextFile, columns: Columns) -> Iterator[tuple[str, Any]]:
    """Yield the place of each value, for error messages, and the value."""
    read = enumerate(lines(file), start=1)
    number, first = next(((number, line) for number, line in read if line.strip()), (0, ""))
    if first.lstrip().startswith("[") or _goes_on(first):
        values = _all_values("\n" * (number - 1) + first + "".join(line for _, line in read), file.path)
    else:
        values = [_parsed(first, f"{file.path}, line {number}")]
        following = ((number, line) for number, line in read if line.strip())
        if second := next(following, None):
            yield f"{file.path}, line {number}", values[0]
            for number, line in chain([second], following):
                where = f"{file.path}, line {number}"
                yield where, _parsed(line, where)
            return
    if len(values) == 1:
        values = _held(values[0], columns, file.path)
    yield from ((f"{file.path}, object {place}", value) for place, value in enumerate(values, start=1))


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: cannot be read as json ({error})") from error


def _goes_on(line: str) -> bool:
    """Whether the value that begins in a line ends in another line."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return error.pos >= len(line.rstrip())
    except (ValueError, RecursionError):
        pass
    return False


def _all_values(text: str, where: str) -> list[Any]:
    """Return the values that stand one after another in a text."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    place = len(text) - len(text.lstrip())
    try:
        while place < len(text):
            value, end = decoder.raw_decode(text, place)
            values.append(value)
            place = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: cannot be read as json ({error})") from error
    return values


def _held(value: Any, columns: Columns, where: str) -> list[Any]:
    """Return the rows that one value holds: an array, an object with the columns as arrays, with one array of objects,
    or with the rows by their numbers. Raises DataError if there are several arrays."""
    if isinstance(value, list) or not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    refuse_chat(value, where, where)
    names = [name for _, name in columns.values()]
    columns_found = [column_value(value, name) for name in names]
    if all(exists for _, exists in columns_found):
        whole = [column for column, _ in columns_found]
        if all(isinstance(column, dict) for column in whole):  # pandas writes {"en": {"0": …, "1": …}}
            keys = dict.fromkeys(chain.from_iterable(whole))
            return [{name: column.get(key) for name, column in zip(names, whole, strict=True)} for key in keys]
        if not all(isinstance(column, list) for column in whole):
            return [value]
        if len({len(column) for column in whole}) > 1:
            sizes = ", ".join(f"{name} {len(column):,}" for name, column in zip(names, whole, strict=True))
            raise DataError(f"{where}: its columns have different lengths: {sizes}")
        return [dict(zip(names, row, strict=True)) for row in zip(*whole, strict=True)]
    titles, cells = value.get("columns"), value.get("data")
    if isinstance(titles, list) and isinstance(cells, list) and all(isinstance(row, list) for row in cells):  # pandas
        return [dict(zip(titles, row, strict=False)) for row in cells]
    for (key, name), (_, exists) in zip(columns.values(), columns_found, strict=True):
        if not exists and any(isinstance(column, list) for column, _ in columns_found):
            raise DataError(missing_column(key, name, where, value))
    if value and all(column_value(row, names[0])[1] for row in value.values()):  # {"0": {"en": …}, "1": …}
        return list(value.values())
    lists = list(_lists(value))
    if len(lists) > 1:
        name = shlex.quote(Path(where).name)
        raise DataError(
            f"{where}: has several lists of objects ({shorten(', '.join(key for key, _ in lists))}); write one of them"
            f" to a file: jq '.{lists[0][0]}' {name} > rows.json"
        )
    return lists[0][1] if lists else [value]


def _lists(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the arrays of objects in an object, with their keys, a few levels deep."""
    for key, inner in value.items():
        if isinstance(inner, dict) and prefix.count(".") < _DEPTH:
            yield from _lists(inner, f"{prefix}{key}.")
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            yield prefix + key, inner


def _example(columns: Columns) -> Iterator[str]:
    return (f'"{name}": "…"' for _, name in columns.values())
