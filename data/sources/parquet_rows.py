"""Read rows of parquet files in small batches, whatever the size of their row groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from data.errors import DataError
from data.sources.tables import Columns, pick

_BATCH = 256
"""Rows decoded together. A file of a few kilobytes may hold a million copies of a long text."""


def parquet_rows(path: Path, columns: Columns) -> Iterator[dict[str, str]]:
    """Yield our columns of each row. Raises DataError if the file is damaged or a column is missing or not text."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            # A dot leads into a nested column or is part of a name. If one is missing, the error lists all.
            parts = [[top for top in names if f"{name}.".startswith(f"{top}.")] for _, name in columns.values()]
            selected = list(dict.fromkeys(chain.from_iterable(parts))) if all(parts) else names
            for batch in file.iter_batches(_BATCH, columns=selected):
                for row in batch.to_pylist():
                    yield pick(row, columns, str(path))
    except (ArrowException, OSError, ValueError, OverflowError) as error:  # pyarrow raises all of these
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{path}: cannot be read as parquet ({cause})") from error
