"""Write rows of text columns to an Arrow file in chunks and memory-map it: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from data.errors import DataError
from data.sources.running_text import chunks

if TYPE_CHECKING:
    from datasets import Dataset

Row = dict[str, str]

_ROWS, _CHARACTERS = 10_000, 1 << 24
"""Limits of a chunk, which keep an Arrow batch below 2^31 bytes of text."""


def arrow_table(rows: Iterable[Row], file: Path, what: str) -> Dataset:
    """Return the rows as a Dataset backed by `file`, which must exist while in use. The first row names the columns.

    `what`: label of the progress bar, such as `reading train`. Raises DataError if there are no rows.
    """
    import datasets
    import pyarrow

    read = tqdm(rows, what, unit=" rows", disable=None, delay=2, leave=False)
    pieces = chunks(read, lambda row: sum(map(len, row.values())), _CHARACTERS, _ROWS)
    first = next(pieces, None)
    if first is None:
        raise DataError(f"{what}: no rows are left: every line is empty; give another file, or another column")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in first[0]])
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
        for chunk in chain([first], pieces):
            writer.write_table(pyarrow.Table.from_pylist(chunk, schema))
    return datasets.Dataset.from_file(str(file))
