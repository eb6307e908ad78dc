"""Tokenizers of a run, and the source alphabet of a translator."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from configs.atomic_file import write_whole
from configs.errors import UserError
from data.tokens.alphabet import source_alphabet
from data.tokens.loading import SUFFIXES, load_tokenizer
from data.tokens.tokenizer import Tokenizer


def save_tokenizers(tokenizers: list[Tokenizer], run: Path) -> None:
    """Save one `tokenizer.model` (imported: `tokenizer.json`), or one per translation side; existing files of a resumed
    run are kept."""
    paths = tokenizer_paths(run, len(tokenizers), tokenizers[0].suffix)
    for path, tokenizer in zip(paths, tokenizers, strict=True):
        if not path.exists():
            write_whole(path, tokenizer.model)


def load_tokenizers(run: Path) -> list[Tokenizer]:
    """Load the run's one or two tokenizers (source first). Raises UserError if they are missing."""
    for suffix, count in product(SUFFIXES, (1, 2)):
        paths = tokenizer_paths(run, count, suffix)
        if all(path.exists() for path in paths):
            return [load_tokenizer(path) for path in paths]
    raise UserError(f"{run}: contains no tokenizer.model; the folder is incomplete, copy the run again")


def tokenizer_paths(run: Path, count: int, suffix: str = ".model") -> list[Path]:
    """Return the paths of a run's tokenizers."""
    names = ["tokenizer"] if count == 1 else ["tokenizer.source", "tokenizer.target"]
    return [run / f"{name}{suffix}" for name in names]


def save_source_alphabet(rows: Any, run: Path) -> None:
    """Save the characters of a translator's training sources to `source_alphabet.txt`."""
    path = run / "source_alphabet.txt"
    if not path.exists():
        write_whole(path, f"{source_alphabet(rows)}\n".encode())


def load_source_alphabet(run: Path) -> frozenset[str] | None:
    """Load the characters of a translator's training sources; None if the file is missing or damaged."""
    try:
        return frozenset((run / "source_alphabet.txt").read_text(encoding="utf-8").strip()) or None
    except (OSError, UnicodeDecodeError):
        return None
