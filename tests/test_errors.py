"""Invalid input: one clear message, exit code 2, and no changed files."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.conftest import TINY, generate_command, train_command
from training.checkpoints.summary import load_progress

Fails = Callable[..., str]


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run a command in `tmp_path` that must exit with code 2 without creating a file -> its single message."""
    monkeypatch.chdir(tmp_path)

    def run(command: Callable[[], None], *arguments: str) -> str:
        before = snapshot(tmp_path)
        monkeypatch.setattr(sys, "argv", [command.__name__, *arguments])
        with pytest.raises(SystemExit) as left:
            command()
        captured = capsys.readouterr()
        assert left.value.code == 2, captured.err
        assert snapshot(tmp_path) == before, "something was written"
        lines = captured.err.strip().splitlines()
        assert len(lines) == 1, captured.err
        assert lines[0].startswith("error: ")
        return lines[0]

    return run


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file with its content, except the cache of prepared data, which may grow."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and ".cache" not in p.parts}


PAIRS = [
    "task=translate",
    "data=pairs",
    *[a for a in TINY if not a.startswith("tokenizer")],
    "tokenizer=char",
    "data.valid_fraction=0.2",
]
TEXT = ["data=text", *[a for a in TINY if not a.startswith("tokenizer")], "tokenizer=char"]


def test_a_missing_file_is_named(fails: Fails) -> None:
    """Guards against a FileNotFoundError traceback from deep inside a library."""
    assert "nowhere.txt" in fails(train_command, *TEXT, "data.path=nowhere.txt")


def test_a_gpt_cannot_be_guided(fails: Fails, tmp_path: Path) -> None:
    """Guards against a setting without effect."""
    assert "trainer.guided_alignment: is for translation" in fails(train_command, *TINY, "trainer.guided_alignment=0.3")


def test_scion_needs_a_head_of_its_own(fails: Fails, tmp_path: Path) -> None:
    """Guards against a table that is updated by one rule although it is embedding and head."""
    assert "add model.tie_embeddings=false" in fails(train_command, *TINY, "optim=scion")


def test_an_empty_file_is_named(fails: Fails, tmp_path: Path) -> None:
    """Guards against training on an empty file."""
    (tmp_path / "empty.txt").write_bytes(b"")
    assert "empty.txt" in fails(train_command, *TEXT, "data.path=empty.txt")


def test_text_that_is_not_utf8_is_named_with_its_place(fails: Fails, tmp_path: Path) -> None:
    """Guards against silently replaced characters."""
    (tmp_path / "latin.txt").write_bytes("first line\ncafé\n".encode("latin-1") * 50)
    message = fails(train_command, *TEXT, "data.path=latin.txt")
    assert "latin.txt" in message
    assert "UTF-8" in message
    assert "line 2" in message


def test_sides_of_different_length_are_refused_with_both_counts(fails: Fails, tmp_path: Path) -> None:
    """Guards against pairs that are misaligned after a missing line."""
    (tmp_path / "a.en").write_text("one\n" * 40, encoding="utf-8")
    (tmp_path / "a.ja").write_text("一\n" * 39, encoding="utf-8")
    message = fails(train_command, *PAIRS, "data.path=a.en,a.ja")
    assert "40" in message
    assert "39" in message


def test_a_table_without_the_column_is_named(fails: Fails, tmp_path: Path) -> None:
    """Guards against an IndexError for a short line, and the use of a wrong column."""
    (tmp_path / "pairs.tsv").write_text("one\t一\n" * 20 + "no second column\n" + "two\t二\n" * 20, encoding="utf-8")
    message = fails(train_command, *PAIRS, "data.path=pairs.tsv", "data.source_column=1", "data.target_column=2")
    assert "pairs.tsv" in message
    assert "21" in message
    (tmp_path / "table.tsv").write_text("english\tjapanese\n" + "one\t一\n" * 20, encoding="utf-8")
    message = fails(
        train_command,
        *PAIRS,
        "data.path=table.tsv",
        "data.header=true",
        "data.source_column=English",
        "data.target_column=japanese",
    )
    assert "English" in message
    assert "english" in message


def test_too_large_vocabulary_is_refused_with_the_limit(fails: Fails, book: Path) -> None:
    """Guards against SentencePiece's internal error message."""
    message = fails(train_command, *TEXT, "data.path=book.txt", "tokenizer=bpe", "tokenizer.vocab_size=5000")
    assert "tokenizer.vocab_size=5000" in message
    assert "at most" in message


def test_out_of_memory_error_names_settings_to_lower(fails: Fails, book: Path) -> None:
    """Guards against a traceback from the memory allocator."""
    message = fails(train_command, *TEXT, "data.path=book.txt", "model.feed_forward=1000000000000")
    assert "out of memory (" in message
    assert "lower trainer.batch_size (now 4)" in message


def test_a_context_longer_than_the_text_is_refused(fails: Fails, book: Path) -> None:
    """Guards against an infinite loop over empty epochs."""
    message = fails(train_command, *TEXT, "data.path=book.txt", "model.context=100000")
    assert "model.context=100000" in message


def test_width_that_heads_do_not_divide_is_refused(fails: Fails) -> None:
    """Guards against a shape error in the first forward pass."""
    message = fails(train_command, *TEXT, "data.path=book.txt", "model.width=33")
    assert "model.width" in message


def test_unknown_keys_are_refused(fails: Fails) -> None:
    """Guards against a misspelt setting that silently leaves the default in place."""
    assert "modl.width" in fails(train_command, "modl.width=64")


@pytest.fixture
def finished(tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small finished GPT run in `tmp_path/runs/done`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", *TEXT, "data.path=book.txt", "name=done", "trainer.keep=5"])
    train_command()
    return tmp_path / "runs" / "done"


def test_a_state_that_is_kept_in_another_order_is_refused(fails: Fails, finished: Path) -> None:
    """Guards against silently assigning moments to the wrong parameters after a change of version or optimiser."""
    path = finished / "checkpoints" / "last" / "state.pt"
    state = torch.load(path, weights_only=True)
    del state["weights"]["starts"]
    torch.save(state, path)
    path.with_name("state.json").write_text(json.dumps(load_progress(path.parent)), encoding="utf-8")  # no checksums
    before = sorted(finished.rglob("*"))
    assert "older version" in fails(train_command, "resume=runs/done", "trainer.steps=8")
    assert sorted(finished.rglob("*")) == before


def test_a_prompt_for_the_wrong_task_is_refused(fails: Fails, finished: Path) -> None:
    """Guards against translation settings that a GPT silently ignores."""
    assert "n_best" in fails(generate_command, "run=runs/done", "prompt=Hello", "n_best=3")
