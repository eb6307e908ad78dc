"""JSON is read in the shapes in which programs write tables; chats are refused with the way on."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from data.config import DataConfig
from data.errors import DataError
from tests.data.conftest import all_pairs, load_rows, made_pairs, texts, write

Config = Callable[..., DataConfig]

PAIRS = made_pairs(30)
ROWS = [{"en": en, "ja": ja, "id": n} for n, (en, ja) in enumerate(PAIRS)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ("id", "en", "ja")}
NAMED = {"source_column": "en", "target_column": "ja"}
CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]

SHAPES = {
    "array": ROWS,
    "object with one list": {"version": "1", "info": {"n": 3}, "data": ROWS},
    "nested": {"corpus": {"name": "x", "rows": ROWS}},
    "columns": {"license": "CC0", **COLUMNS},
    "rows by number": dict(enumerate(ROWS)),
    "cells of pandas": {"columns": ["id", "en", "ja"], "data": [[row["id"], row["en"], row["ja"]] for row in ROWS]},
    "columns of pandas": {name: dict(enumerate(column)) for name, column in COLUMNS.items()},
}


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "indented"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_in_one_value_is_read(tmp_path: Path, pairs_config: Config, shape: str, indent: int | None) -> None:
    """Guards .json files of other programs, on one line or indented, after blank lines."""
    file = write(tmp_path / "a.json", "\n\n" + json.dumps(SHAPES[shape], indent=indent, ensure_ascii=False))
    config = pairs_config(file, **NAMED)
    assert all_pairs(config) == PAIRS


def test_indented_objects_one_after_another_are_read(tmp_path: Path, pairs_config: Config) -> None:
    """Guards the output of jq, and the hub's translation format."""
    rows = [{"translation": {"en": en, "ja": ja}} for en, ja in PAIRS]
    file = write(tmp_path / "a.jsonl", "\n".join(json.dumps(row, indent=2) for row in rows))
    config = pairs_config(file, source_column="translation.en", target_column="translation.ja")
    assert all_pairs(config) == PAIRS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"data": ROWS}, r"data.source_column=english: .*a.json has no such column; it has: en, ja, id"),
        (COLUMNS, r"data.source_column=english: .*a.json has no such column; it has: id, en, ja"),
        ({"english": ["a"], "ja": ["b", "c"]}, r"its columns have different lengths: english 1, ja 2"),
        (
            {"train": ROWS, "dev": ROWS},
            r"has several lists of objects \(train, dev\); .*jq '.train' a.json > rows.json",
        ),
        (
            [{"id": 1, "talk": {"lines": [{"english": "a", "ja": "b"}]}}],
            r"has no such column; .*english is in the list talk.lines; .*jq -c '.. \| \(.talk.lines\)\? .*' a.json",
        ),
        (
            {"rows": [{"english": ["a", "b"], "ja": "c"}]},
            r"object 1 has a list of texts there; join them, .*: .english \|= join\(",
        ),
        ({"english": 1, "ja": 2}, r"data.source_column=english: .*object 1 has int there, not text"),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_without_the_columns_says_what_was_found(
    tmp_path: Path, pairs_config: Config, value: object, message: str, indent: int | None
) -> None:
    """Guards against "cannot be read as json" about valid JSON."""
    file = write(tmp_path / "a.json", json.dumps(value, indent=indent))
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(file, source_column="english", target_column="ja"), "translate")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_dot_may_be_part_of_a_name(tmp_path: Path, pairs_config: Config, kind: str) -> None:
    """Guards flat keys such as translation.en, which are found before nested ones."""
    rows = [{"translation.en": en, "a": {"b.c": ja}, "translation": {"en": "nested"}} for en, ja in PAIRS]
    file = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write(file, "".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    config = pairs_config(file, source_column="translation.en", target_column="a.b.c")
    assert all_pairs(config) == PAIRS


@pytest.mark.parametrize(
    ("name", "value", "keys"),
    [
        ("a.jsonl", {"messages": CHAT}, "messages: role, content"),
        ("a.json", [{"id": 1, "conversations": [{"from": "human", "value": "Hi"}]}], "conversations: from, value"),
        ("a.json", {"messages": CHAT}, "messages: role, content"),
    ],
)
@pytest.mark.parametrize("column", ["text", "messages"])
def test_chats_are_refused_with_a_command_that_makes_texts(
    tmp_path: Path, text_config: Config, name: str, value: object, keys: str, column: str
) -> None:
    """Guards the way on: the command of the message runs, and its result is read."""
    file = write(tmp_path / name, json.dumps(value) + ("\n" + json.dumps(value)) * (name == "a.jsonl"))
    with pytest.raises(DataError, match=rf"is a chat \({keys}\); models here continue texts or translate") as refusal:
        load_rows(text_config(file, text_column=column), "gpt")
    command = str(refusal.value).partition("as texts: ")[2].partition(", then")[0]
    assert shlex.split(command)[0] == "jq"
    if subprocess.run(["which", "jq"], capture_output=True, check=False).returncode == 0:
        subprocess.run(command, shell=True, cwd=tmp_path, check=True)
        assert texts(text_config(tmp_path / "a.texts.jsonl", valid_fraction=0, valid_path=f"{tmp_path}/a.texts.jsonl"))


def test_chats_in_parquet_are_refused(tmp_path: Path, text_config: Config) -> None:
    """Guards the form in which the hub has chats."""
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"messages": CHAT}] * 9), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet: is a chat \(messages: role, content\).*dataset.map\(lambda row"):
        load_rows(text_config(tmp_path / "a.parquet"), "gpt")


def test_texts_with_keys_are_paired_by_their_keys(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against other sentences' translations: each language has its own order, and lacks some texts."""
    sides: dict[str, dict[str, str]] = {}
    sides["en"] = {f"k{n}": en for n, (en, _) in enumerate(PAIRS)}
    sides["ja"] = {f"k{n}": ja for n, (_, ja) in reversed([*enumerate(PAIRS)])}
    del sides["en"]["k3"], sides["ja"]["k4"]
    config = pairs_config(write(tmp_path / "a.json", json.dumps(sides)), **NAMED)
    assert all_pairs(config) == PAIRS[:3] + PAIRS[5:]


@pytest.mark.parametrize("text", [json.dumps(PAIRS), "".join(json.dumps(pair) + "\n" for pair in PAIRS)])
def test_arrays_without_names_come_with_a_command_that_makes_a_table(
    tmp_path: Path, pairs_config: Config, text: str
) -> None:
    """Guards [["a", "b"], …], which was refused without a way on."""
    file = write(tmp_path / "my rows.json", text)
    with pytest.raises(DataError, match=r"is an array, whose cells have no names; .*: jq ") as result:
        load_rows(pairs_config(file), "translate")
    command = str(result.value).rpartition(": ")[2]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    config = pairs_config(tmp_path / "rows.csv")
    assert all_pairs(config) == PAIRS
