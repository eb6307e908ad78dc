"""Rows in an Arrow file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

from data.errors import DataError
from data.sources.arrow_file import arrow_table


def test_rows_are_written_without_holding_them_in_memory(tmp_path: Path) -> None:
    """Guards corpora larger than memory: Arrow holds only a fraction of the 30 MB of rows, or of two long documents,
    while they are written."""
    before = pyarrow.total_allocated_bytes()
    held = 0

    def rows(count: int, text: str) -> Iterator[dict[str, str]]:
        nonlocal held
        for n in range(count):
            held = max(held, pyarrow.total_allocated_bytes() - before)
            yield {"source": f"{n} {text}", "target": str(n)}

    for count, text in ((100_000, "x" * 300), (30, "y" * 1_000_000)):
        result = arrow_table(rows(count, text), tmp_path / f"{count}.arrow", "reading")
        held = max(held, pyarrow.total_allocated_bytes() - before)
        assert len(result) == count
        assert result[count - 1] == {"source": f"{count - 1} {text}", "target": str(count - 1)}
    assert held < 8_000_000


def test_no_rows_are_an_error(tmp_path: Path) -> None:
    """Guards against a table without columns from files of empty lines."""
    with pytest.raises(DataError, match="no rows are left"):
        arrow_table(iter(()), tmp_path / "a.arrow", "reading")
