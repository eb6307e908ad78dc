"""Small files and configs that read them; everything is cached in the test's own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from data.config import DataConfig
from data.sources.sources import load

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real() -> Callable[[str], str]:
    """Return a function from a corpus name to its path (`real("wikitext2")`); it skips the test if the corpus is
    absent."""

    def folder(name: str) -> str:
        if not (REAL / name).is_dir():
            pytest.skip(f"the corpus {name} is not in ../shared/data")
        return str(REAL / name)

    return folder


@pytest.fixture
def text_config(tmp_path: Path) -> Callable[..., DataConfig]:
    """Return a function that builds a config for running text, with its cache in the test's folder."""
    return lambda path, **more: DataConfig(source="text", path=str(path), cache=str(tmp_path / "cache"), **more)


@pytest.fixture
def pairs_config(tmp_path: Path) -> Callable[..., DataConfig]:
    """Return a function that builds a config for sentence pairs, with its cache in the test's folder."""
    return lambda path, **more: DataConfig(source="pairs", path=str(path), cache=str(tmp_path / "cache"), **more)


def made_text(lines: int = 400) -> str:
    """Return distinct English-like lines."""
    return "".join(
        f"Line {n}: the {'old red shy wet'.split()[n % 4]} fox met {n * 7919 % 1000} hens.\n" for n in range(lines)
    )


def made_pairs(count: int = 300) -> list[tuple[str, str]]:
    """Return distinct pairs of varied length."""
    return [
        (f"The cat number {n} " + "sat " * (n % 13) + "down.", f"猫{n}が" + "とても" * (n % 9) + "座った。")
        for n in range(count)
    ]


def load_rows(config: DataConfig, task: str) -> dict[str, Any]:
    """Return the rows of each split."""
    rows = load(config, task)
    return {split: rows[split] for split in rows.names}


def texts(config: DataConfig, split: str = "train") -> list[str]:
    """Return the rows of a split of running text."""
    return load_rows(config, "gpt")[split]["text"][:]


def pairs(config: DataConfig, split: str = "train") -> list[tuple[str, str]]:
    """Return the rows of a split of sentence pairs, as (source, target)."""
    rows = load_rows(config, "translate")[split]
    return list(zip(rows["source"][:], rows["target"][:], strict=True))


def all_pairs(config: DataConfig) -> list[tuple[str, str]]:
    """Return the pairs of the training and the validation split, in the order of the file."""
    return pairs(config) + pairs(config, "valid")


def tsv(rows: Iterable[Sequence[object]]) -> str:
    """Return the text of a table without a header."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def side(rows: Iterable[tuple[str, str]], index: int) -> str:
    """Return the text of one of two aligned files."""
    return "".join(f"{row[index]}\n" for row in rows)


def write(path: Path, content: str | bytes) -> Path:
    """Write a file (text as UTF-8) and its parent folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
