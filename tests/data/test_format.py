"""Prepared data changes only together with a version in its key: two integers in data/cache_folders.py."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from data import cache_folders
from data.config import DataConfig, TokenizerConfig
from data.primer import rows
from data.token_cache import prepare
from data.tokens.loading import load_tokenizer
from tests.data.conftest import load_rows, made_pairs, made_text, tsv, write

PREPARED = {
    "text": "552f63d15073f784",
    "lines": "a5e70f2c502b554a",
    "pairs": "bce6aa23b54880e9",
    "sentences": "32549cc6bfba9bc6",
    "stories": "6cc0bf3b49f9d2c1",
}
"""Hashes of prepared data at `FORMAT` 2."""

CORPUS = {"sentences": "01c12ff312dd28c7", "stories": "f4d4c2822384c5ca"}
"""Hashes of 4000 rows of the built-in corpus at `CORPUS` 14."""


def digest(*parts: object) -> str:
    """Return a hash of bytes and JSON-serialisable values."""
    result = hashlib.sha256()
    for part in parts:
        result.update(part if isinstance(part, bytes) else json.dumps(part, ensure_ascii=False).encode())
    return result.hexdigest()[:16]


def prepared_digest(task: str, data: DataConfig, tokenizer: TokenizerConfig) -> str:
    """Return a hash of all rows, of the tokenizers' pieces, and of every file in the folders of tokens."""
    prepare(task, data, tokenizer, 24, 0)
    parts: list[object] = [{split: table[:] for split, table in load_rows(data, task).items()}]
    parts += [json.loads(file.read_text("utf-8")) for file in Path(data.cache).glob("rows/*/rows.json")]
    for file in sorted(Path(data.cache).glob("tokenizers/*/*.model")):
        model = load_tokenizer(file)  # its pieces: the file also has settings, which grow with the library
        parts += [file.name, model.pieces(range(model.vocab_size))]
    for file in sorted(Path(data.cache).glob("tokens/*/*")):
        parts += [file.name, file.read_bytes()]
    return digest(*parts)


@pytest.mark.parametrize("kind", PREPARED)
def test_prepared_data_digest_is_pinned(kind: str, tmp_path: Path) -> None:
    """Guards against training that continues with data prepared by an older version under the same key."""
    text = write(tmp_path / "text" / "book.txt", made_text() + "\n猫が\tsat.\n")
    table = tsv(made_pairs())
    pairs = write(tmp_path / "pairs" / "all.tsv", table + "no target\t\n")
    task, data, tokenizer = {
        "text": ("gpt", DataConfig("text", str(text)), TokenizerConfig("bpe", 120)),
        "lines": ("gpt", DataConfig("text", str(text), rows="line", split="random"), TokenizerConfig("char", 30)),
        "pairs": ("translate", DataConfig("pairs", str(pairs)), TokenizerConfig("bpe", 60, shared=False)),
        "sentences": ("translate", DataConfig(sentences=300), TokenizerConfig("bpe", 700)),
        "stories": ("gpt", DataConfig(stories=100), TokenizerConfig("char")),
    }[kind]
    data.cache = str(tmp_path / "cache")
    result = prepared_digest(task, data, tokenizer)
    assert (cache_folders.FORMAT, result) == (2, PREPARED[kind]), (
        "prepared data changed: raise FORMAT in data/cache_folders.py, or caches keep the old data under the same key; "
        f"then pin the new hash here ({kind}: {result})"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", CORPUS)
def test_corpus_digest_is_pinned(kind: str) -> None:
    """Guards the same for the built-in corpus, and that its rows do not depend on the Python version or the hash
    seed."""
    result = digest(rows(kind, 4000, seed=1))
    assert (cache_folders.CORPUS, result) == (14, CORPUS[kind]), (
        "the built-in corpus changed: raise CORPUS in data/cache_folders.py, or caches keep old rows under that key; "
        f"then pin the new hash here ({kind}: {result})"
    )
