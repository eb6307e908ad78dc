"""The tokenizers of a run, and the characters of a translator's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from configs.errors import UserError
from configs.whole_file import write_whole
from data.tokens.alphabet import source_alphabet
from data.tokens.tokenizer import Tokenizer


def save_tokenizers(tokenizers: list[Tokenizer], run: Path) -> None:
    """One `tokenizer.model`, or one for each side of a translation; those of a resumed run are there already."""
    for path, tokenizer in zip(tokenizer_paths(run, len(tokenizers)), tokenizers, strict=True):
        if not path.exists():
            write_whole(path, tokenizer.model)


def load_tokenizers(run: Path) -> list[Tokenizer]:
    """The run's one or two tokenizers (source first)."""
    for count in (1, 2):
        paths = tokenizer_paths(run, count)
        if all(path.exists() for path in paths):
            return [Tokenizer.load(path) for path in paths]
    raise UserError(f"{run}: no tokenizer.model in it; the folder is incomplete, copy the run again")


def tokenizer_paths(run: Path, count: int) -> list[Path]:
    """Where the tokenizers of a run lie."""
    names = ["tokenizer.model"] if count == 1 else ["tokenizer.source.model", "tokenizer.target.model"]
    return [run / name for name in names]


def save_source_alphabet(rows: Any, run: Path) -> None:
    """`source_alphabet.txt`: the characters of a translator's sources, from the rows of the training split."""
    path = run / "source_alphabet.txt"
    if not path.exists():
        write_whole(path, f"{source_alphabet(rows)}\n".encode())


def load_source_alphabet(run: Path) -> frozenset[str] | None:
    """The characters in which a translator's sources are written; None where the file is missing (older runs) or
    damaged."""
    try:
        return frozenset((run / "source_alphabet.txt").read_text(encoding="utf-8").strip()) or None
    except (OSError, UnicodeDecodeError):
        return None
