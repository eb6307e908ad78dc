"""Datasets of a hub on this machine: revisions, splits, streaming, offline, and the commands of the documentation."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY
from tests.data.sources.fake_hub import Files, Hub, running

Call = Callable[..., "subprocess.CompletedProcess[str]"]

LOAD = """
import json, sys
from data.config import DataConfig
from data.errors import DataError
from data.sources.sources import load
for settings in json.loads(sys.argv[1]):
    try:
        rows = load(DataConfig(source="hub", path="someone/books", **settings), "gpt")
        print(json.dumps([{split: [row["text"] for row in rows[split]] for split in rows.names}, rows.notes]))
    except DataError as error:
        print(json.dumps(str(error)))
"""
"""Prints, for each dict of settings, the texts of each split and the notes, or the error."""


def lines(word: str, count: int) -> bytes:
    """Return rows of JSON with numbered texts."""
    return "".join(json.dumps({"text": f"{word} {number}"}) + "\n" for number in range(count)).encode()


OLD = {"train.jsonl": lines("old", 20), "validation.jsonl": lines("old valid", 2)}
NEW = {"train.jsonl": lines("new", 20), "validation.jsonl": lines("valid", 2), "test.jsonl": lines("test", 2)}


@pytest.fixture
def books() -> Iterator[Hub]:
    """A hub with one dataset in two revisions."""
    hub = Hub({"someone/books": {"main": NEW, "v1": OLD}})
    with running(hub):
        yield hub


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Run Python in an empty folder with a hub, whose local copies are in that folder."""

    def run(hub: Hub, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        places = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
        environment = {**os.environ, **places, **environment}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return run


@pytest.mark.slow
def test_revisions_splits_and_streams_of_a_hub_dataset(books: Hub, call: Call) -> None:
    """Guards against rows of another revision or split than the one that was asked for."""
    asked = [
        {},
        {"revision": "v1"},
        {"train_split": "train[:3]", "test_split": "train[3:5]"},
        {"train_split": "validation+test", "valid_split": "train[:1]"},
        {"streaming": True},
        {"train_split": "nothing"},
        {"revision": "v9"},
    ]
    ended = call(books, "-c", LOAD, json.dumps(asked))
    assert ended.returncode == 0, ended.stderr
    plain, old, parts, summed, streamed, no_split, no_revision = map(json.loads, ended.stdout.splitlines())
    texts = [f"new {number}" for number in range(20)]
    valid, test = ["valid 0", "valid 1"], ["test 0", "test 1"]
    assert plain == streamed == [{"train": texts, "valid": valid, "test": test}, []]
    assert old == [{"train": [f"old {n}" for n in range(20)], "valid": ["old valid 0", "old valid 1"]}, []]
    unused = "data.path=someone/books: these splits of the dataset are not used: test"
    assert parts == [{"train": texts[:3], "valid": valid, "test": texts[3:5]}, [unused]]
    assert summed == [{"train": valid + test, "valid": texts[:1]}, []]
    assert 'Unknown split "nothing"' in no_split
    assert no_revision == (
        "data.path=someone/books data.revision=v9: cannot be loaded from the hub "
        "(Revision 'v9' doesn't exist for dataset 'someone/books' on the Hub.)"
    )


@pytest.mark.slow
def test_offline_the_local_copy_is_used(books: Hub, call: Call) -> None:
    """Guards against requests in spite of HF_HUB_OFFLINE, and a dataset that cannot be used again without a network."""
    first = call(books, "-c", LOAD, json.dumps([{"revision": "v1"}]))
    books.requests.clear()
    second = call(books, "-c", LOAD, json.dumps([{"revision": "v1"}]), HF_HUB_OFFLINE="1")
    assert books.requests == []
    assert first.stdout.startswith('[{"train": ["old 0"'), first.stderr
    assert second.stdout == first.stdout, second.stderr


def documented() -> list[str]:
    """Return the commands of README and docs that train on a dataset of the hub."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    result = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    return sorted({line for line in result if line.startswith("python train.py") and "data=hub" in line})


def copy_of(command: list[str]) -> tuple[str, Files]:
    """Return the name and the files of a small dataset like the one that a command trains on."""
    settings = dict(argument.partition("=")[::2] for argument in command if "=" in argument)
    translates = settings.get("task") == "translate"
    pair = {"translation": {"en": "a red book", "ja": "赤い本"}}
    row = pair if translates else {"text": "A red book lies here. " * 20}
    subset = settings.get("data.subset", "default")
    splits = {"train": 40, "validation": 4, "test": 4}
    files = {f"{subset}/{split}.jsonl": "".join([json.dumps(row) + "\n"] * count) for split, count in splits.items()}
    described = "".join(f"  - {{split: {split}, path: {subset}/{split}.jsonl}}\n" for split in splits)
    files["README.md"] = f"---\nconfigs:\n- config_name: {subset}\n  data_files:\n{described}---\n"
    return settings["data.path"], {path: text.encode() for path, text in files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("line", documented())
def test_documented_commands_train_on_a_dataset_of_the_hub(line: str, call: Call) -> None:
    """Guards against examples that do not work with today's settings and libraries."""
    command = shlex.split(re.sub(r"\s+#.*", "", line))[2:]
    name, files = copy_of(command)
    tiny = [setting for setting in TINY if not setting.startswith(("data.", "tokenizer."))]
    hub = Hub({name: {"main": files}})
    with running(hub):
        ended = call(hub, str(ROOT / "train.py"), *command, *tiny, "trainer.steps=2", "name=small")
    assert ended.returncode == 0, ended.stderr
    assert "finished at step 2" in ended.stdout
