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
from data.prepared import PreparedText
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
    return [int(batches[0].inputs[0, 0]), *predicted(prepared, split)]


def predicted(prepared: PreparedText, split: str) -> list[int]:
    return [token for batch in prepared.evaluation(split, 4, 8) for token in batch.targets.flatten().tolist()]


def test_text_is_one_token_per_character_and_counted(tmp_path: Path, text_config: Config) -> None:
    """Guards sizes behind bits per byte: characters, bytes (猫 has three), and the text itself."""
    text = "猫 sat.\n" * 50
    (tmp_path / "train.txt").write_text(text, "utf-8")
    (tmp_path / "valid.txt").write_text("猫猫\n", "utf-8")
    data = prepare("gpt", text_config(tmp_path), CHAR, 8, seed=0)
    assert data.splits == ["train", "valid"]
    assert data.tokens("train") == 1 + len(text)
    assert (data.tokens("valid"), data.bytes("valid")) == (4, 7)
    assert data.tokenizer.decode(all_tokens(data, "train")) == text
    assert data.tokenizer.vocab_size == 4 + len(set(text))
    assert data.notes == []


def test_every_character_of_a_text_is_predicted(tmp_path: Path, text_config: Config) -> None:
    """Guards the first character, in each split, and text begun from nothing: the eos that generation starts with is
    what stood before the text."""
    text = made_text()
    (tmp_path / "book.txt").write_text(text, "utf-8")
    data = prepare("gpt", text_config(tmp_path / "book.txt", test_fraction=0.1), CHAR, 8, seed=0)
    assert "".join(data.tokenizer.decode(predicted(data, split)) for split in data.splits) == text
    for split in data.splits:
        assert all_tokens(data, split)[0] == data.tokenizer.eos_id
        assert data.bytes(split) == len(predicted(data, split))
    assert text.startswith(data.texts("train", 1)[0])


def test_each_document_is_preceded_by_eos(tmp_path: Path, text_config: Config) -> None:
    """Guards story corpora: the beginning of every document is learnt, the first one's too; an end counts one byte."""
    (tmp_path / "train.txt").write_text("one.\n\ntwo\nlines.\n\n\nthree.\n", "utf-8")
    (tmp_path / "valid.txt").write_text("one.\n\ntwo.", "utf-8")
    data = prepare("gpt", text_config(tmp_path, rows="paragraph"), CHAR, 8, seed=0)
    encode = data.tokenizer.encode
    assert all_tokens(data, "train") == [3, *encode("one."), 3, *encode("two\nlines."), 3, *encode("three.")]
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


def test_the_key_tells_whether_training_would_see_the_same(
    tmp_path: Path, text_config: Config, pairs_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards resume: changed training rows, order or tokenizer are noticed; another place, a longer validation split, a
    new version of this package are not taken for changes."""
    book, table = tmp_path / "book.txt", tmp_path / "all.tsv"
    sides = [f"{en}\t{ja}\n" for en, ja in made_pairs()]
    book.write_text(made_text(), "utf-8")
    table.write_text("".join(sides), "utf-8")
    (tmp_path / "valid.txt").write_text("Line 1.", "utf-8")
    (tmp_path / "valid.tsv").write_text("".join(sides[:9]), "utf-8")
    text = text_config(book, valid_path=str(tmp_path / "valid.txt"))
    pairs = pairs_config(table, valid_path=str(tmp_path / "valid.tsv"))

    def keys(tokenizer: TokenizerConfig = CHAR) -> list[str]:
        return [
            prepare("gpt", text, tokenizer, 8, 0).key,
            prepare("translate", pairs, tokenizer, 80, 0).key,
            prepare("gpt", replace(text, streaming=True), tokenizer, 8, 0).key,
        ]

    before = keys()
    assert before[0] == before[2] != before[1]
    (tmp_path / "valid.txt").write_text("Line 2. Line 3.", "utf-8")
    text.path = str(book.rename(tmp_path / "renamed.txt"))
    monkeypatch.setattr("data.cache.code_version", lambda: "another")
    assert keys() == before
    assert all(new != old for new, old in zip(keys(TokenizerConfig(kind="bpe", vocab_size=120)), before, strict=True))
    Path(text.path).write_text(made_text().replace("fox", "hen", 1), "utf-8")
    table.write_text("".join([*sides[1:], sides[0]]), "utf-8")
    assert all(new != old for new, old in zip(keys(), before, strict=True))
    assert (
        len({prepare("gpt", replace(text, max_rows=1, rows=kind), CHAR, 8, 0).key for kind in ("document", "line")})
        == 2
    )


def test_sizes_are_told_in_rounded_numbers(tmp_path: Path, text_config: Config, pairs_config: Config) -> None:
    """Guards the line that says what is trained on, the same for both tasks; and one list of tokenizers for both."""
    (tmp_path / "train.txt").write_text("a cat sat. " * 4000, "utf-8")
    (tmp_path / "valid.txt").write_text("a cat", "utf-8")
    text = prepare("gpt", text_config(tmp_path), CHAR, 8, 0)
    assert text.summary() == "train 44k tokens, valid 6 tokens"
    assert text.tokenizers == [text.tokenizer]
    folder = tmp_path / "pairs"
    folder.mkdir()
    write_pairs(folder, made_pairs(1234), made_pairs(999))
    pairs = prepare("translate", pairs_config(folder), CHAR, 80, 0)
    assert pairs.summary() == "train 1.23k pairs, valid 999 pairs"
    assert pairs.tokenizers == [pairs.source_tokenizer]
    own = prepare("translate", pairs_config(folder), replace(CHAR, shared=False), 80, 0)
    assert own.tokenizers == [own.source_tokenizer, own.target_tokenizer]


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


@pytest.mark.parametrize("kind", ["text", "jsonl"])
def test_an_interrupted_preparation_leaves_nothing_and_the_next_start_works(tmp_path: Path, kind: str) -> None:
    """Guards Ctrl+C while data are prepared: no temporary folder stays, here or in the system's; warnings are errors."""
    lines = made_text().splitlines()
    text = "".join(json.dumps({"text": line}) + "\n" for line in lines) if kind == "jsonl" else made_text()
    path, scratch = tmp_path / f"book.{kind}", tmp_path / "scratch"
    path.write_text(text, "utf-8")
    scratch.mkdir()
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a test run in the background ignores it
        "from data.config import DataConfig, TokenizerConfig\n"
        "from data.prepare import prepare\n"
        "stop = sys.argv[3]\n"
        "def interrupt(frame, event, argument):\n"
        "    if frame.f_code.co_name == stop and 'data' in frame.f_code.co_filename:\n"
        "        sys.setprofile(None)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.setprofile(interrupt)\n"
        "config = DataConfig(source='text', path=sys.argv[1], cache=sys.argv[2])\n"
        "print(prepare('gpt', config, TokenizerConfig(kind='bpe', vocab_size=100), 8, 0).summary())\n"
    )

    def start(stop: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", program, str(path), str(tmp_path / "cache"), stop],
            cwd=Path(__file__).resolve().parents[2],
            env=os.environ | {"TMPDIR": str(scratch)},
            capture_output=True,
            text=True,
            timeout=120,
        )

    for stop in ("pick" if kind == "jsonl" else "lines", "_sample", "encode_batch"):
        interrupted = start(stop)
        assert interrupted.returncode != 0
        assert interrupted.stderr.strip().endswith("KeyboardInterrupt")
        assert "Warning" not in interrupted.stderr
        assert list(scratch.iterdir()) == []
        assert [left for left in (tmp_path / "cache").rglob(".*") if left.is_dir()] == []
    whole = start("nothing")
    assert whole.stderr == ""
    assert whole.stdout.startswith("train ")


def test_the_cache_may_lie_in_the_home_folder(
    tmp_path: Path, text_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards `~` in data.cache, which no shell expands behind `=`."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    prepare("gpt", replace(text_config(tmp_path / "book.txt"), cache="~/prepared"), CHAR, 8, 0)
    assert {path.name for path in (tmp_path / "home" / "prepared").iterdir()} == {"rows", "tokenizers", "tokens"}
    assert not (tmp_path / "~").exists()


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


def test_what_is_left_out_is_told(tmp_path: Path, pairs_config: Config, caplog: pytest.LogCaptureFixture) -> None:
    """Guards against silent loss, on the second start too, when nothing is prepared anew; and against telling it twice:
    who prepares prints the notes, so nothing logs them."""
    write_pairs(tmp_path, [*made_pairs(), ("empty", "")], made_pairs(9))
    for _ in range(2):
        with caplog.at_level("INFO"):
            data = prepare("translate", pairs_config(tmp_path), CHAR, 40, 0)
        assert data.notes[0] == "train: 1 pairs with an empty side were left out"
        assert any("longer than model.context=40" in note for note in data.notes)
    assert caplog.messages == []


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
