"""Prepared data is built once per content; failures and interruptions leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from data.cache_folders import cached_folder
from data.config import DataConfig, TokenizerConfig
from data.errors import DataError
from data.sources.text_files import scan
from data.token_cache import prepare
from tests.data.conftest import made_pairs, made_text, write

CHAR = TokenizerConfig(kind="char")
Config = Callable[..., DataConfig]


def stored(cache: str) -> dict[str, int]:
    """Return everything in a cache, with the time it was written."""
    return {
        str(path): path.stat().st_mtime_ns
        for kind in ("rows", "tokens", "tokenizers")
        for path in (Path(cache) / kind).rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def test_second_start_reuses_the_cache(tmp_path: Path, text_config: Config) -> None:
    """Guards the cache: the same content under another name and folder is found; a changed byte rebuilds everything."""
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
    assert given.size("train") == first.size("train")
    assert stored(config.cache) == before

    content = path.read_bytes()
    times = path.stat()
    path.write_bytes(content.replace(b"fox", b"fux", 1))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # same size, same time: only the content tells
    again = prepare("gpt", config, CHAR, 8, seed=0)
    tokens = [token for batch in again.evaluation("train", 4) for token in batch.targets.flatten().tolist()]
    assert again.tokenizer.decode(tokens).count("fux") == 1
    assert len(stored(config.cache)) > len(before)


def test_settings_that_change_the_tokens_miss_the_cache(tmp_path: Path, text_config: Config) -> None:
    """Guards against stale tokens after a change of settings."""
    config = text_config(write(tmp_path / "book.txt", made_text()))
    base = prepare("gpt", config, CHAR, 8, seed=0)
    assert prepare("gpt", replace(config, valid_fraction=0.2), CHAR, 8, seed=0).size("train") < base.size("train")
    assert prepare("gpt", config, TokenizerConfig(kind="bpe", vocab_size=100), 8, seed=0).size("train") < base.size(
        "train"
    )
    assert (
        prepare("gpt", replace(config, rows="line"), CHAR, 8, seed=0).tokenizer.vocab_size
        == base.tokenizer.vocab_size - 1
    )


def test_training_key_changes_only_with_the_batches(
    tmp_path: Path, text_config: Config, pairs_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards resume: changed training rows, order or tokenizer are detected; another path, a longer validation split or
    a new cache format do not count as changes."""
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
            prepare("gpt", text, tokenizer, 8, 0).keys["train"],
            prepare("translate", pairs, tokenizer, 80, 0).keys["train"],
            prepare("gpt", replace(text, streaming=True), tokenizer, 8, 0).keys["train"],
        ]

    before = keys()
    assert before[0] == before[2] != before[1]
    (tmp_path / "valid.txt").write_text("Line 2. Line 3.", "utf-8")
    text.path = str(book.rename(tmp_path / "renamed.txt"))
    monkeypatch.setattr("data.cache_folders.FORMAT", 99)
    assert keys() == before
    assert all(new != old for new, old in zip(keys(TokenizerConfig(kind="bpe", vocab_size=120)), before, strict=True))
    Path(text.path).write_text(made_text().replace("fox", "hen", 1), "utf-8")
    table.write_text("".join([*sides[1:], sides[0]]), "utf-8")
    assert all(new != old for new, old in zip(keys(), before, strict=True))
    assert (
        len(
            {
                prepare("gpt", replace(text, max_rows=1, rows=kind), CHAR, 8, 0).keys["train"]
                for kind in ("document", "line")
            }
        )
        == 2
    )


@pytest.fixture
def large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that counts as large, so that its scan is stored."""
    monkeypatch.setattr("data.sources.text_files._REMEMBER", 800)
    return write(tmp_path / "large.txt", b"abcdefg\n" * 100)


def test_large_files_are_recognised_by_size_and_time(tmp_path: Path, large_file: Path) -> None:
    """Guards against rereading huge files on every start; a new modification time causes a new scan."""
    first = scan(large_file, tmp_path / "scans")
    assert first.lines == 100
    status = large_file.stat()
    with large_file.open("r+b") as file:
        file.write(b"X")
    os.utime(large_file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert scan(large_file, tmp_path / "scans") == first
    os.utime(large_file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert scan(large_file, tmp_path / "scans").sha256 != first.sha256


@pytest.mark.parametrize("damaged", ["", "{}", "[]", '{"path": "x'])
def test_damaged_scan_is_replaced(tmp_path: Path, large_file: Path, damaged: str) -> None:
    """Guards against a traceback of the JSON parser on every start after a power failure."""
    first = scan(large_file, tmp_path / "scans")
    (stored_scan,) = (tmp_path / "scans").iterdir()
    whole = stored_scan.read_text("utf-8")
    stored_scan.write_text(damaged, "utf-8")
    assert scan(large_file, tmp_path / "scans") == first
    assert stored_scan.read_text("utf-8") == whole


def test_failed_build_leaves_no_folder(tmp_path: Path) -> None:
    """Guards against incomplete data after a crash or a full disk."""

    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise DataError("no")

    (tmp_path / ".key-12345").mkdir()  # left by a process that was killed
    with pytest.raises(DataError, match="no"):
        cached_folder(tmp_path, "key", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
    folder = cached_folder(tmp_path, "key", lambda folder: (folder / "whole").write_text("whole") and None)
    assert [path.name for path in folder.iterdir()] == ["whole"]


@pytest.mark.slow
def test_concurrent_processes_prepare_once(tmp_path: Path) -> None:
    """Guards torchrun and sweeps: one process builds, the others wait and use the result."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    program = (
        "import json, sys\n"
        "from data.config import DataConfig, TokenizerConfig\n"
        "from data.token_cache import prepare\n"
        "import data.token_cache as module\n"
        "built = []\n"
        "whole = module._write_tokens\n"
        "module._write_tokens = lambda *parts: (built.append(1), whole(*parts))\n"
        "config = DataConfig(source='text', path=sys.argv[1], cache=sys.argv[2])\n"
        "data = prepare('gpt', config, TokenizerConfig(kind='unigram', vocab_size=200), 8, 0)\n"
        "print(json.dumps([len(built), data.size('train'), data.tokenizer.fingerprint]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "book.txt"), str(tmp_path / "cache")]
    root = Path(__file__).resolve().parents[2]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) for _ in range(3)]
    result = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    assert sum(builds for builds, _, _ in result) == 1
    assert len({(tokens, fingerprint) for _, tokens, fingerprint in result}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "stops"), [("text", ("lines", "_sample", "encode_batch")), ("jsonl", ("text_of",))], ids=["text", "jsonl"]
)
def test_interrupted_preparation_leaves_no_files(tmp_path: Path, kind: str, stops: tuple[str, ...]) -> None:
    """Guards Ctrl-C during preparation: no temporary folder remains in the cache or in the system's folder; warnings
    are errors."""
    lines = made_text().splitlines()
    text = "".join(json.dumps({"text": line}) + "\n" for line in lines) if kind == "jsonl" else made_text()
    path, scratch = tmp_path / f"book.{kind}", tmp_path / "scratch"
    path.write_text(text, "utf-8")
    scratch.mkdir()
    program = (
        "import os, signal, sys\n"
        "import datasets\n"  # before functions are watched, which would make its import several times as slow
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a test run in the background ignores it
        "from data.config import DataConfig, TokenizerConfig\n"
        "from data.token_cache import prepare\n"
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

    for stop in stops:
        interrupted = start(stop)
        assert interrupted.returncode != 0
        assert interrupted.stderr.strip().endswith("KeyboardInterrupt")
        assert "Warning" not in interrupted.stderr
        assert list(scratch.iterdir()) == []
        assert [left for left in (tmp_path / "cache").rglob(".*") if left.is_dir()] == []
    whole = start("nothing")
    assert whole.stderr == ""
    assert whole.stdout.startswith("train ")


def test_cache_path_expands_the_home_folder(
    tmp_path: Path, text_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards `~` in data.cache, which the shell does not expand after `=`."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    prepare("gpt", replace(text_config(tmp_path / "book.txt"), cache="~/prepared"), CHAR, 8, 0)
    assert {path.name for path in (tmp_path / "home" / "prepared").iterdir()} == {"rows", "tokenizers", "tokens"}
    assert not (tmp_path / "~").exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Guards read-only disks: the message names the key to change."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"data.cache: cannot write to .*file"):
        prepare(
            "gpt", DataConfig(source="text", path=str(tmp_path / "book.txt"), cache=str(tmp_path / "file")), CHAR, 8, 0
        )
