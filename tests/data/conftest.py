"""Small files and the config that reads them; everything is cached below the test's own folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig
from data.sources.sources import load_rows

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real() -> Callable[[str], str]:
    """`real("wikitext2")`: path of a real corpus; the test is skipped where the corpora are absent."""

    def folder(name: str) -> str:
        if not (REAL / name).is_dir():
            pytest.skip(f"the corpus {name} is not in ../shared/data")
        return str(REAL / name)

    return folder


@pytest.fixture
def text_config(tmp_path: Path) -> Callable[..., DataConfig]:
    """A config for running text with its cache in the test's folder."""
    return lambda path, **more: DataConfig(source="text", path=str(path), cache=str(tmp_path / "cache"), **more)


@pytest.fixture
def pairs_config(tmp_path: Path) -> Callable[..., DataConfig]:
    """A config for sentence pairs with its cache in the test's folder."""
    return lambda path, **more: DataConfig(source="pairs", path=str(path), cache=str(tmp_path / "cache"), **more)


def made_text(lines: int = 400) -> str:
    """English-like lines, no two alike."""
    return "".join(
        f"Line {n}: the {'old red shy wet'.split()[n % 4]} fox met {n * 7919 % 1000} hens.\n" for n in range(lines)
    )


def made_pairs(count: int = 300) -> list[tuple[str, str]]:
    """Distinct pairs of varied length."""
    return [
        (f"The cat number {n} " + "sat " * (n % 13) + "down.", f"猫{n}が" + "とても" * (n % 9) + "座った。")
        for n in range(count)
    ]


def texts(config: DataConfig, split: str = "train") -> list[str]:
    """The rows of a split of running text."""
    return load_rows(config, "gpt")[split]["text"][:]


def pairs(config: DataConfig, split: str = "train") -> list[tuple[str, str]]:
    """The rows of a split of sentence pairs, as (source, target)."""
    rows = load_rows(config, "translate")[split]
    return list(zip(rows["source"][:], rows["target"][:], strict=True))


def write(path: Path, content: str | bytes) -> Path:
    """The file, written with its folders; text as UTF-8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
