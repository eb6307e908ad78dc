"""Prepared data: made once, by content, and the same however it was read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from data.cache import cached_folder
from data.config import DataConfig, TokenizerConfig
from data.errors import DataError
from data.prepare import prepare
from data.prepared import PreparedPairs, PreparedText
from data.text_files import _REMEMBER, scan
from data.tokenizer import Tokenizer
from tests.data.conftest import made_pairs, made_text

CHAR = TokenizerConfig(kind="char")
Config = Callable[..., DataConfig]


def write_pairs(folder: Path, train: list[tuple[str, str]], valid: list[tuple[str, str]]) -> None:
    for name, rows in (("train", train), ("valid", valid)):
        (folder / f"{name}.tsv").write_text("".join(f"{en}\t{ja}\n" for en, ja in rows), "utf-8")


def stored(cache: str) -> dict[str, int]:
    """Everything prepared in a cache, with the time it was written."""
    return {
        str(path): path.stat().st_mtime_ns
        for kind in ("rows", "tokens", "tokenizers")
        for path in (Path(cache) / kind).rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def all_tokens(prepared: PreparedText, split: str) -> list[int]:
    batches = list(prepared.evaluation(split, 4, 8))
    return [int(batches[0].inputs[0, 0])] + [token for batch in batches for token in batch.targets.flatten().tolist()]


def test_text_is_one_token_per_character_and_counted(tmp_path: Path, text_config: Config) -> None:
    """Guards sizes behind bits per byte: characters, bytes (猫 has three), and the text itself."""
    text = "猫 sat.\n" * 50
    (tmp_path / "train.txt").write_text(text, "utf-8")
    (tmp_path / "valid.txt").write_text("猫猫\n", "utf-8")
    data = prepare("gpt", text_config(tmp_path), CHAR, 8, seed=0)
    assert data.splits == ["train", "valid"]
    assert data.tokens("train") == len(text)
    assert (data.tokens("valid"), data.bytes("valid")) == (3, 7)
    assert data.tokenizer.decode(all_tokens(data, "train")) == text
    assert data.tokenizer.vocab_size == 4 + len(set(text))
    assert data.notes == []


def test_documents_are_separated_by_eos(tmp_path: Path, text_config: Config) -> None:
    """Guards story corpora: an end between two documents, none at the border of the file; it counts one byte."""
    (tmp_path / "train.txt").write_text("one.\n\ntwo\nlines.\n\n\nthree.\n", "utf-8")
    (tmp_path / "valid.txt").write_text("one.\n\ntwo.", "utf-8")
    data = prepare("gpt", text_config(tmp_path, rows="paragraph"), CHAR, 8, seed=0)
    encode = data.tokenizer.encode
    assert all_tokens(data, "train") == [*encode("one."), 3, *encode("two\nlines."), 3, *encode("three.")]
    assert data.bytes("valid") == len("one.") + 1 + len("two.")
    assert data.texts("train", 2) == ["one.", "two\nline"]  # 8 tokens at most
    assert data.texts("train", 3, length=100) == ["one.", "two\nlines.", "three."]


def test_passages_stand_in_where_documents_are_few(tmp_path: Path, text_config: Config) -> None:
    """Guards probes from a single long text: passages spread over it."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    data = prepare("gpt", text_config(tmp_path / "book.txt"), CHAR, 16, seed=0)
    passages = data.texts("train", 3)
    assert len(set(passages)) == 3
    assert all(len(passage) == 16 and passage in made_text() for passage in passages)


@pytest.mark.parametrize("rows", ["document", "paragraph", "line"])
@pytest.mark.parametrize(
    "tokenizer", [CHAR, TokenizerConfig(kind="unigram", vocab_size=150, byte_fallback=False)], ids=["char", "unigram"]
)
def test_streaming_gives_the_same_tokens(
    tmp_path: Path, text_config: Config, rows: str, tokenizer: TokenizerConfig
) -> None:
    """Guards text larger than memory: streamed and loaded preparation agree token for token, splits and vocabulary too."""
    for n in range(3):
        text = made_text(200 + n).replace("hens.\n", "hens.\n\n" if n else "hens, 猫 \t\n")
        (tmp_path / f"{n}.txt").write_text(text, "utf-8")
    config = text_config(tmp_path / "*.txt", rows=rows, test_fraction=0.15)
    loaded = prepare("gpt", config, tokenizer, 8, seed=0)
    streamed = prepare("gpt", replace(config, streaming=True), tokenizer, 8, seed=0)
    assert streamed.tokenizer.fingerprint == loaded.tokenizer.fingerprint
    assert streamed.splits == loaded.splits == ["train", "valid", "test"]
    for split in loaded.splits:
        assert all_tokens(streamed, split) == all_tokens(loaded, split)
        assert streamed.bytes(split) == loaded.bytes(split)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_streamed_tables_give_the_same_tokens(tmp_path: Path, text_config: Config, kind: str) -> None:
    """Guards streaming through the hub library, empty rows included."""
    import datasets

    table = datasets.Dataset.from_dict({"text": [*made_text(100).split("\n"), "", "end"]})
    path = tmp_path / f"rows.{kind}"
    (table.to_json if kind == "jsonl" else table.to_parquet)(str(path))
    loaded = prepare("gpt", text_config(path), CHAR, 8, seed=0)
    streamed = prepare("gpt", text_config(path, streaming=True), CHAR, 8, seed=0)
    for split in ("train", "valid"):
        assert all_tokens(streamed, split) == all_tokens(loaded, split)


def test_only_the_training_split_shapes_the_tokenizer(
    tmp_path: Path, text_config: Config, pairs_config: Config
) -> None:
    """Guards honest evaluation: other validation and test text, byte for byte the same tokenizer."""
    models = []
    for held_out in ("the end", "Ωmega ßharp 犬 犬 犬"):
        folder = tmp_path / held_out[:3]
        folder.mkdir()
        (folder / "train.txt").write_text(made_text(), "utf-8")
        for split in ("valid", "test"):
            (folder / f"{split}.txt").write_text(held_out * 50, "utf-8")
        (folder / "pairs").mkdir()
        write_pairs(folder / "pairs", made_pairs(), [(held_out, held_out)] * 20)
        unigram = TokenizerConfig(kind="unigram", vocab_size=100)
        text = prepare("gpt", text_config(folder), CHAR, 8, seed=0)
        pairs = prepare("translate", pairs_config(folder / "pairs"), unigram, 30, seed=0)
        models.append((text.tokenizer.model, pairs.source_tokenizer.model))
        assert all(
            character not in "".join(text.tokenizer.pieces(range(text.tokenizer.vocab_size))) for character in "Ωß犬"
        )
        if held_out.startswith("Ω"):
            assert any(note.startswith("valid: ") and "<unk>" in note for note in text.notes)
            assert any(note.startswith("valid source: ") and "<unk>" in note for note in pairs.notes)
    assert models[0] == models[1]


def test_a_second_start_makes_nothing_again(tmp_path: Path, text_config: Config) -> None:
    """Guards the cache: same content, other name and folder - nothing is written; a changed byte - everything is."""
    path = tmp_path / "book.txt"
    path.write_text(made_text(), "utf-8")
    config = text_config(path)
    first = prepare("gpt", config, CHAR, 8, seed=0)
    before = stored(config.cache)
    moved = tmp_path / "elsewhere" / "renamed.txt"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    prepare("gpt", config, CHAR, 16, seed=5)
    prepare("gpt", replace(config, path=str(moved)), CHAR, 8, seed=0)
    given = prepare("gpt", config, TokenizerConfig(kind="bpe"), 8, seed=0, tokenizers=[first.tokenizer])
    assert given.tokens("train") == first.tokens("train")
    assert stored(config.cache) == before

    content = path.read_bytes()
    times = path.stat()
    path.write_bytes(content.replace(b"fox", b"fux", 1))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # same size, same time: only the content tells
    assert (
        prepare("gpt", config, CHAR, 8, seed=0)
        .tokenizer.decode(np.fromiter(all_tokens(prepare("gpt", config, CHAR, 8, seed=0), "train"), dtype=int).tolist())
        .count("fux")
        == 1
    )
    assert len(stored(config.cache)) > len(before)


def test_settings_that_change_the_tokens_miss_the_cache(tmp_path: Path, text_config: Config) -> None:
    """Guards against stale tokens after a change of settings."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    config = text_config(tmp_path / "book.txt")
    base = prepare("gpt", config, CHAR, 8, seed=0)
    assert prepare("gpt", replace(config, valid_fraction=0.2), CHAR, 8, seed=0).tokens("train") < base.tokens("train")
    assert prepare("gpt", config, TokenizerConfig(kind="bpe", vocab_size=100), 8, seed=0).tokens("train") < base.tokens(
        "train"
    )
    assert (
        prepare("gpt", replace(config, rows="line"), CHAR, 8, seed=0).tokenizer.vocab_size
        == base.tokenizer.vocab_size - 1
    )


def test_large_files_are_recognised_by_size_and_time(tmp_path: Path) -> None:
    """Guards starts on huge corpora from reading them again; a new time makes them read."""
    path = tmp_path / "large.txt"
    path.write_bytes(b"abcdefg\n" * (_REMEMBER // 8))
    first = scan(path, tmp_path / "scans")
    assert first.lines == _REMEMBER // 8
    content = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(content.st_atime_ns, content.st_mtime_ns))
    assert scan(path, tmp_path / "scans") == first
    os.utime(path, ns=(content.st_atime_ns, content.st_mtime_ns + 1))
    assert scan(path, tmp_path / "scans").sha256 != first.sha256


def test_a_failed_build_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    """Guards against half-made data after a crash or a full disk."""

    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise DataError("no")

    (tmp_path / ".key-12345").mkdir()  # left by a process that was killed
    with pytest.raises(DataError, match="no"):
        cached_folder(tmp_path, "key", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
    folder = cached_folder(tmp_path, "key", lambda folder: (folder / "whole").write_text("whole") and None)
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_processes_that_start_together_share_one_preparation(tmp_path: Path) -> None:
    """Guards torchrun and sweeps: one process builds, the others wait for it and find the same."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    program = (
        "import json, sys\n"
        "from data.config import DataConfig, TokenizerConfig\n"
        "from data.prepare import prepare\n"
        "import data.prepare as module\n"
        "built = []\n"
        "whole = module._write_tokens\n"
        "module._write_tokens = lambda *parts: (built.append(1), whole(*parts))\n"
        "config = DataConfig(source='text', path=sys.argv[1], cache=sys.argv[2])\n"
        "data = prepare('gpt', config, TokenizerConfig(kind='unigram', vocab_size=200), 8, 0)\n"
        "print(json.dumps([len(built), data.tokens('train'), data.tokenizer.fingerprint]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "book.txt"), str(tmp_path / "cache")]
    root = Path(__file__).resolve().parents[2]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) for _ in range(3)]
    found = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    assert sum(builds for builds, _, _ in found) == 1
    assert len({(tokens, fingerprint) for _, tokens, fingerprint in found}) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Guards read-only disks: the key to change is named."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"data.cache: cannot write to .*file"):
        prepare(
            "gpt", DataConfig(source="text", path=str(tmp_path / "book.txt"), cache=str(tmp_path / "file")), CHAR, 8, 0
        )


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_given_tokenizers_are_used_as_they_are(
    tmp_path: Path, text_config: Config, pairs_config: Config, task: str
) -> None:
    """Guards resume and init_from: ids keep their meaning although the new text would train another tokenizer."""
    own = [Tokenizer.train([made_text(), "猫がとても座った。"], TokenizerConfig(kind="bpe", vocab_size=90))]
    if task == "gpt":
        (tmp_path / "book.txt").write_text("Other text, other letters. " * 30, "utf-8")
        data = prepare("gpt", text_config(tmp_path / "book.txt"), CHAR, 8, 0, tokenizers=own)
        assert data.tokenizer.fingerprint == own[0].fingerprint
        assert any("<unk>" in note for note in data.notes)
    else:
        write_pairs(tmp_path, made_pairs(), made_pairs(9))
        both = [*own, Tokenizer.train([made_text()], TokenizerConfig(kind="char"))]
        pairs = prepare("translate", pairs_config(tmp_path), CHAR, 60, 0, tokenizers=both)
        assert [pairs.source_tokenizer, pairs.target_tokenizer] == both
        assert not pairs.shared
        alone = prepare("translate", pairs_config(tmp_path), CHAR, 60, 0, tokenizers=own)
        assert alone.shared
        assert alone.source_tokenizer is alone.target_tokenizer


def test_what_is_left_out_is_logged(tmp_path: Path, pairs_config: Config, caplog: pytest.LogCaptureFixture) -> None:
    """Guards against silent loss on the second start too, when nothing is prepared anew."""
    write_pairs(tmp_path, [*made_pairs(), ("empty", "")], made_pairs(9))
    for _ in range(2):
        caplog.clear()
        with caplog.at_level("INFO"):
            data = prepare("translate", pairs_config(tmp_path), CHAR, 40, 0)
        assert isinstance(data, PreparedPairs)
        assert caplog.messages == data.notes
        assert caplog.messages[0] == "train: 1 pairs with an empty side were left out"
        assert any("longer than model.context=40" in message for message in caplog.messages)


def test_preparing_is_quiet_without_a_terminal(
    tmp_path: Path, text_config: Config, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards logs and pipes from progress bars and from SentencePiece's messages."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    prepare("gpt", text_config(tmp_path / "book.txt"), TokenizerConfig(kind="unigram", vocab_size=100), 8, seed=0)
    written = capfd.readouterr()
    assert written.out == written.err == ""


def test_batches_move_between_devices_whole(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Batch.to: optional parts stay as they are, and what the model gets is in the agreed order."""
    write_pairs(tmp_path, made_pairs(), made_pairs(9))
    batch = prepare("translate", pairs_config(tmp_path), CHAR, 80, 0).training().next_batch()
    moved = batch.to("meta")
    assert moved.inputs.device.type == moved.source.device.type == "meta"
    assert (moved.source_mask is None) == (batch.source_mask is None)
    assert batch.model_inputs[0] is batch.source
    assert batch.model_inputs[1] is batch.inputs
    assert torch.equal(batch.to("cpu").targets, batch.targets)
