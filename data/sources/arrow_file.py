"""Rows of text columns in an Arrow file, written in chunks and memory-mapped: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from data.errors import DataError

if TYPE_CHECKING:
    from datasets import Dataset

Row = dict[str, str]

_ROWS, _CHARACTERS = 10_000, 1 << 24
"""Limits of a chunk, which ends at the first one reached: an Arrow batch of less than 2^31 bytes of text."""


def arrow_table(rows: Iterable[Row], file: Path, what: str) -> Dataset:
    """Return the rows as a Dataset backed by `file`, which must exist while in use. The first row names the columns.

    `what`: label of the progress bar. Raises DataError if there are no rows.
    """
    import datasets
    import pyarrow

    chunks = _chunks(tqdm(rows, what, unit=" rows", disable=None, delay=2, leave=False))
    first = next(chunks, None)
    if first is None:
        raise DataError("no rows are left: every line is empty")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in first[0]])
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pyarrow.Table.from_pylist(first, schema))
        for chunk in chunks:
            writer.write_table(pyarrow.Table.from_pylist(chunk, schema))
    return datasets.Dataset.from_file(str(file))


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += sum(map(len, row.values()))
        if len(chunk) == _ROWS or size >= _CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
