"""Rows of text columns in an Arrow file, written share by share and then memory-mapped: no memory grows with
the rows."""

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
"""A share: whichever is reached first. Each is an Arrow batch, whose text must stay below 2^31 bytes."""


def arrow_table(rows: Iterable[Row], file: Path, what: str) -> Dataset:
    """The rows as a Dataset that reads `file`, which must stay while it is used. All rows have the columns of the
    first.

    `what`: text of the progress bar. Raises DataError when there are no rows.
    """
    import datasets
    import pyarrow

    shares = _shares(tqdm(rows, what, unit=" rows", disable=None, delay=2, leave=False))
    first = next(shares, None)
    if first is None:
        raise DataError("no rows are left: every line is empty")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in first[0]])
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pyarrow.Table.from_pylist(first, schema))
        for share in shares:
            writer.write_table(pyarrow.Table.from_pylist(share, schema))
    return datasets.Dataset.from_file(str(file))


def _shares(rows: Iterable[Row]) -> Iterator[list[Row]]:
    share: list[Row] = []
    size = 0
    for row in rows:
        share.append(row)
        size += sum(map(len, row.values()))
        if len(share) == _ROWS or size >= _CHARACTERS:
            yield share
            share, size = [], 0
    if share:
        yield share
