"""Error messages about unusable files, tables, paths and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig
from data.errors import DataError
from data.primer.corpus import KINDS, sentence_row
from data.primer.grammar.choice import Chooser
from data.primer.stream import Stream
from tests.data.conftest import all_pairs, load_rows, made_pairs, made_text, pairs, write

PAIRS = made_pairs(40)
Config = Callable[..., DataConfig]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"data.path=.*book.txt: no such file or folder"),
        (b"", r"book.txt: the file is empty"),
        (b"\n\n\r\n", r"book.txt: the file is empty"),
        ("良い\n日本".encode() + b"\n\x8b\xc7 Shift-JIS", r"book.txt, line 3: not UTF-8 \(byte 0x8b at offset 14\)"),
        (b"cut off \xe3\x81", r"book.txt, line 1: not UTF-8 \(byte 0xe3 at offset 8\)"),
        (b"x", r"data.path: the text is too short"),
    ],
)
def test_invalid_text_file_error(tmp_path: Path, text_config: Config, content: bytes | None, message: str) -> None:
    """Guards new users: the message names file, line and fix; nothing incomplete stays in the cache."""
    if content is not None:
        write(tmp_path / "book.txt", content)
    with pytest.raises(DataError, match=message):
        load_rows(text_config(tmp_path / "book.txt"), "gpt")
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []


def test_bytes_that_are_not_utf8_are_found_beyond_the_first_block(tmp_path: Path, text_config: Config) -> None:
    """Guards the reported offset in a large file, where a character may span two reads."""
    good = "猫\n" * (2_000_000)
    write(tmp_path / "book.txt", good.encode() + b"\xff\n")
    with pytest.raises(DataError, match=rf"line 2000001: not UTF-8 \(byte 0xff at offset {4 * 2_000_000}\)"):
        load_rows(text_config(tmp_path / "book.txt"), "gpt")


def test_more_rows_than_the_built_in_corpus_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback after minutes: the message names the key and the number that there are."""
    row, combinations, texts_of_row = sentence_row(Chooser(Stream(1)))
    monkeypatch.setitem(KINDS, "sentences", lambda chooser: (dict(row), combinations, texts_of_row))
    config = DataConfig(sentences=40, cache=str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"data.sentences=40: .* fewer than 40 distinct rows; it has at least 1; set a"):
        load_rows(config, "translate")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "one\t一\ntwo\n",
            r"a.tsv, line 2: has 1 cell separated by tab \(.two.\), but .* column 2 \(data.target_column=target",
        ),
        (
            "a.csv",
            "one,一\n\ntwo\n",
            r"a.csv, line 3: has 1 cell separated by , .* column 2 \(data.target_column=target\)",
        ),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": \n', r"a.jsonl, line 2: cannot be read as json"),
        ("a.jsonl", '{"source": "a"}\n', r"data.target_column=target: .*a.jsonl has no such column; it has: source"),
        ("a.jsonl", '{"source": "a", "target": 3}\n', r"data.target_column=target: .*has int there, not text"),
        ("a.parquet", "no parquet", r"a.parquet: cannot be read as parquet"),
        ("a.tsv", "\t\n\t\n", r"reading train: no rows are left: every line is empty"),
        (
            "a.tsv",
            "source\ttarget\none\t一\n",
            r"a.tsv: the first line has the names .*source, target.*data.header=true",
        ),
        (
            "a.tsv",
            "\nsource\ttarget\none\t一\n",
            r"a.tsv: the first line has the names .*source, target.*data.header=true",
        ),
        ("a.csv", '"ID"," Target "\none,一\n', r"a.csv: the first line has the names .*ID, Target.*data.header=true"),
        (
            "a.csv",
            'one,一\ntwo,"二\nthree,三\n',
            r"a.csv, line 2: not valid CSV \(the quote opened here is never closed",
        ),
    ],
)
def test_invalid_table_error(tmp_path: Path, pairs_config: Config, name: str, content: str, message: str) -> None:
    """Guards messages about tables: they name the line and the key of the column."""
    write(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(tmp_path / name), "translate")


def test_unequal_aligned_files_error(tmp_path: Path, pairs_config: Config) -> None:
    """Guards aligned files: without this error, a shifted corpus would train a useless model."""
    write(tmp_path / "a.en", "one\ntwo\nthree\n")
    write(tmp_path / "a.ja", "一\n二")
    with pytest.raises(DataError, match=r"a.en has 3 lines but .*a.ja has 2"):
        load_rows(pairs_config(f"{tmp_path}/a.en,{tmp_path}/a.ja"), "translate")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "*.nothing"}, r"data.path=.*: no file matches"),
        ({"path": "."}, r"the folder is empty"),
        ({"path": "a.txt,b.txt"}, r"data.path=.*: a list of two files is for data=pairs"),
        ({"path": "book.txt", "valid_path": "gone.txt"}, r"data.valid_path=.*gone.txt: no such file"),
        ({"path": "book.txt", "valid_fraction": 0.0}, r"no validation data: set data.valid_fraction .*data.valid_path"),
        ({"path": "book.txt", "split": "random"}, r"1 rows are too few .*data.rows=paragraph"),
    ],
)
def test_invalid_path_and_split_errors(tmp_path: Path, text_config: Config, settings, message: str) -> None:
    """Guards mistyped settings: the message names the key."""
    folder = tmp_path / "texts"
    folder.mkdir()
    if settings["path"] == "book.txt":
        write(folder / "book.txt", made_text())
    paths = {
        name: ",".join(str(folder / part) for part in value.split(",")) if name.endswith("path") else value
        for name, value in settings.items()
    }
    with pytest.raises(DataError, match=message):
        load_rows(text_config(**paths), "gpt")


def test_header_is_detected_with_column_numbers(tmp_path: Path, pairs_config: Config, text_config: Config) -> None:
    """Guards data.source_column=1 on a file with a header, whose names would become a training row; the same word in
    another cell is data."""
    lines = "".join(f"{n}\t{en}\t{ja}\n" for n, (en, ja) in enumerate(PAIRS))
    numbers = {"source_column": "2", "target_column": "3"}
    named = write(tmp_path / "named.tsv", "id\tsource\ttarget\n" + lines)
    with pytest.raises(DataError, match=r"data.header=true"):
        load_rows(pairs_config(named, **numbers), "translate")
    config = pairs_config(named, header=True, **numbers)
    assert all_pairs(config) == PAIRS
    words = write(tmp_path / "words.tsv", "source\t1\t2\n" + lines)
    assert pairs(pairs_config(words, **numbers))[0] == ("1", "2")
    with pytest.raises(DataError, match=r"posts.csv: the first line has the names .*data.header=true"):
        load_rows(text_config(write(tmp_path / "posts.csv", "id,text\n1,hello\n")), "gpt")
