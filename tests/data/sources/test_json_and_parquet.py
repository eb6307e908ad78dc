"""Rows of JSON Lines and parquet files: text stays text, memory stays small, and errors name the line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from data.config import DataConfig
from data.errors import DataError
from data.sources.json_rows import json_rows
from data.sources.parquet_rows import parquet_rows
from data.sources.sources import load
from data.sources.text_files import scan
from tests.conftest import environment
from tests.data.conftest import all_pairs, load_rows, write

Config = Callable[..., DataConfig]

TEXT = {"text": ("data.text_column", "text")}


def test_texts_that_look_like_dates_or_numbers_stay_text(tmp_path: Path) -> None:
    """Guards against a reader that guesses types: it refused a column of dates, which are text."""
    texts = ["2020-01-01", "2020-01-01 10:00:00", "12", "true", "null", "1e5"]
    write(tmp_path / "a.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert [row["text"] for row in json_rows(scan(tmp_path / "a.jsonl", tmp_path), TEXT)] == texts


def test_a_json_array_of_objects_is_read_like_lines(tmp_path: Path) -> None:
    """Guards .json files as other programs export them, indented over many lines."""
    rows = [{"text": "one"}, {"text": "two", "id": 2}]
    write(tmp_path / "a.json", json.dumps(rows, indent=1))
    assert [row["text"] for row in json_rows(scan(tmp_path / "a.json", tmp_path), TEXT)] == ["one", "two"]


def test_rows_with_other_columns_of_any_type_are_read(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against an error about a column that is not used; a row without a side is left out and counted."""
    odd = [3, "x", None, [1], {"a": {}}]
    rows = [{"source": f"s{n}", "target": f"t{n}", "note": odd[n % 5]} for n in range(20)]
    del rows[7]["target"]
    config = pairs_config(write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert len(all_pairs(config)) == 19
    assert "train: 1 pairs with an empty side were left out" in load(config, "translate").notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"text": "good"}\n{"text": "\\ud83d"}\n',
            r"line 2 has half of a surrogate pair there \(\\ud83d\), which is no",
        ),
        ('{"text": "good"}\n["text"]\n', r"line 2: is not a JSON object such as \{\"text\": \"…\"\}"),
        ('{"text": "good"}\n{"text": 5}\n', r"data.text_column=text: .*line 2 has int there, not text"),
        ('[{"text": "good"}, {"text": []}]', r"object 2 has list there, not text"),
        ('[{"text": "good"},', r"cannot be read as json"),
        ("[" * 100_000, r"cannot be read as json"),
        ('{"text": ' + "9" * 5000 + "}", r"line 1: cannot be read as json \(Exceeds the limit"),
        ('{"other": "x", "more": {"en": "y"}}\n', r"has no such column; it has: other, more.en"),
    ],
)
def test_json_that_is_no_text_is_named_with_its_line(
    tmp_path: Path, text_config: Config, content: str, message: str
) -> None:
    """Guards against tracebacks, and errors of a library that name neither line nor key."""
    write(tmp_path / "a.jsonl", content)
    with pytest.raises(DataError, match=message):
        load_rows(text_config(tmp_path / "a.jsonl"), "gpt")


@pytest.mark.slow
def test_a_parquet_file_of_few_bytes_and_many_rows_needs_little_memory(tmp_path: Path) -> None:
    """Guards against decompression bombs: 20 GB of text in a row group of a few kilobytes is read in small batches."""
    file = tmp_path / "bomb.parquet"
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 200_000, pyarrow.int32()), ["x" * 100_000])
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), file, compression="zstd", row_group_size=200_000)
    assert file.stat().st_size < 100_000
    program = (
        "import resource, sys; from pathlib import Path; from data.sources.parquet_rows import parquet_rows\n"
        f"rows = parquet_rows(Path({str(file)!r}), {TEXT!r})\n"
        "for _ in range(2000): next(rows)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 3000, "MiB of memory"


def test_a_parquet_file_is_never_unpacked_by_its_first_bytes(tmp_path: Path) -> None:
    """Guards against an archive under another name, which a library would unpack to the disk."""
    import gzip

    file = write(tmp_path / "a.parquet", gzip.compress(b"x" * 1000))
    with pytest.raises(DataError, match=r"a.parquet: cannot be read as parquet"):
        list(parquet_rows(file, TEXT))


@pytest.mark.parametrize(
    ("name", "start", "what"),
    [
        ("a.txt", b"\x1f\x8b\x08\0", "gzip file"),
        ("a.txt", b"PK\x03\x04\xff", "archive"),
        ("a.jsonl", b"\xfd7zXZ\0", "xz file"),
    ],
)
def test_a_damaged_archive_is_told_from_a_text(
    tmp_path: Path, text_config: Config, name: str, start: bytes, what: str
) -> None:
    """Guards the advice: it needs another copy, not another encoding."""
    write(tmp_path / name, start + b"\xff" * 100)
    with pytest.raises(DataError, match=rf"{name}: the {what} is damaged or incomplete"):
        load_rows(text_config(tmp_path / name), "gpt")


def test_empty_rows_of_a_stream_are_counted(tmp_path: Path, text_config: Config) -> None:
    """Guards against rows that vanish without a note where text is streamed; the note is the same as without."""
    write(tmp_path / "a.jsonl", "".join(json.dumps({"text": f"row {n}" if n % 5 else ""}) + "\n" for n in range(50)))
    notes = [load(text_config(tmp_path / "a.jsonl", streaming=stream), "gpt").notes for stream in (False, True)]
    assert notes == [["train: 10 empty rows were left out"]] * 2
