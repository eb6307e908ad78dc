"""Notes on splits that mislead."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Dataset

from data.config import DataConfig
from data.sources.sources import load
from data.sources.split_checks import split_notes
from tests.data.conftest import made_pairs, made_text, tsv, write

PAIRS = made_pairs(300)
Config = Callable[..., DataConfig]


def flattering(config: DataConfig, task: str) -> list[str]:
    """Return the notes on splits."""
    return [note for note in load(config, task).notes if "flatter" in note or "than the training" in note]


@pytest.mark.parametrize("streaming", [False, True])
def test_note_on_validation_file_in_training_data(
    tmp_path: Path, text_config: Config, pairs_config: Config, streaming: bool
) -> None:
    """Guards `data.valid_path` equal to `data.path`: the loss falls to nothing and says nothing."""
    book = write(tmp_path / "book.txt", made_text())
    (note,) = flattering(text_config(book, valid_path=str(book), streaming=streaming), "gpt")
    assert note.startswith("valid: ")
    assert "also stand" in note
    all_pairs = write(tmp_path / "all.tsv", tsv(PAIRS))
    if not streaming:
        (note,) = flattering(pairs_config(all_pairs, test_path=str(all_pairs), valid_fraction=0.1), "translate")
        assert note.startswith("test: 270 of 300 pairs also stand in the training data")


def test_note_on_duplicated_training_rows(tmp_path: Path, text_config: Config, pairs_config: Config) -> None:
    """Guards against a random split of rows that occur twice, and a validation file that is a part of the text."""
    twice = write(tmp_path / "twice.tsv", tsv(PAIRS + PAIRS[:7]))
    (note,) = flattering(pairs_config(twice), "translate")
    assert note.startswith("valid: 7 of 31 pairs also stand in the training data")
    lines = "".join(f"a long line of text that is number {n} of all\n" for n in range(200))
    book = write(tmp_path / "book.txt", lines)
    part = write(tmp_path / "part.txt", lines[:3000] + "another long line that stands nowhere else in it\n" * 9)
    (note,) = flattering(text_config(book, valid_path=str(part)), "gpt")
    assert note == "valid: 88 % of its longer lines also stand in the training data, and its scores flatter"
    assert flattering(text_config(book), "gpt") == []


@pytest.mark.parametrize(("reverse", "what"), [(False, "longer"), (True, "shorter")])
def test_note_on_data_sorted_by_length(
    tmp_path: Path, text_config: Config, pairs_config: Config, reverse: bool, what: str
) -> None:
    """Guards against validating on the longest tenth of a sorted corpus."""
    ordered = sorted(PAIRS, key=lambda pair: len(pair[0]), reverse=reverse)
    config = pairs_config(write(tmp_path / "sorted.tsv", tsv(ordered)))
    (note,) = flattering(config, "translate")
    assert note.startswith(f"valid: its pairs are {what} than the training pairs (")
    assert note.endswith("set data.split=random")
    held = write(tmp_path / "held.tsv", tsv([(en + "!", ja) for en, ja in ordered[-30:]]))
    rest = write(tmp_path / "rest.tsv", tsv(ordered[:-30]))
    (note,) = flattering(pairs_config(rest, valid_path=str(held)), "translate")
    assert re.fullmatch(rf"valid: its pairs are {what} than the training pairs \(\d+ %\)", note), "no other split"
    config.split = "random"
    assert flattering(config, "translate") == []
    assert flattering(pairs_config(write(tmp_path / "mixed.tsv", tsv(PAIRS))), "translate") == []


def test_lengths_of_many_rows_take_little_memory() -> None:
    """Guards corpora of millions of pairs, whose lengths in Python lists took 150 bytes for each."""
    count = 50_000
    train, valid = ({"source": [f"{a} {n:0300}" for n in range(size)]} for a, size in (("a", count), ("b", 100)))
    splits = {
        name: Dataset.from_dict(side | {"target": side["source"]})
        for name, side in (("train", train), ("valid", valid))
    }
    tracemalloc.start()
    assert split_notes(splits, DataConfig(source="pairs")) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * count
