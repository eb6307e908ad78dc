"""`python -m data.primer kind=sentences pairs=1000 format=tsv`: the embedded corpus on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from configs.errors import UserError
from configs.program import run_guarded
from configs.settings import describe, read_settings
from data.primer import rows
from data.primer.corpus import Row, sides
from data.primer.drawing import links, picture
from data.tokens.word_alignment import project

HELP = """Write the embedded English-Japanese corpus to standard output.

  python -m data.primer kind=stories pairs=100

Settings (key=value):"""


@dataclass
class PrimerSettings:
    """Settings of the command."""

    kind: Literal["sentences", "stories"] = "sentences"
    """`sentences` (pairs) or `stories`."""

    pairs: int = 1000
    """Number of distinct pairs in all splits together."""

    seed: int = 1
    """Seed of the selection of pairs."""

    split: Literal["train", "valid", "test", "novel"] | None = None
    """Only the pairs of this split: `train`, `valid`, `test` (2 in 100) or `novel`."""

    format: Literal["tsv", "jsonl", "pharaoh", "svg"] = "tsv"
    """`tsv`: English, Japanese; `jsonl`: whole rows with gold spans; `pharaoh`: both sides in words, and their links as
    0-0 1-2; `svg`: a picture of the links, for a browser."""


def _pharaoh(row: Row) -> str:
    words = (" ".join(side[a:b] for a, b in spans) for side, spans in zip(sides(row), row["words"], strict=True))
    links = " ".join(f"{i}-{j}" for i, j in project(row["alignment"], *row["words"]))
    return "\t".join((*words, links))


FORMATS: dict[str, Callable[[Row], str]] = {
    "tsv": lambda row: "\t".join(sides(row)),
    "jsonl": lambda row: json.dumps(row, ensure_ascii=False),
    "pharaoh": _pharaoh,
}
"""Formats with one line per row; `svg` is one picture of all rows."""


def without_dashes(arguments: list[str]) -> list[str]:
    """The arguments with `--key value` and `--key=value` written as `key=value`."""
    settings: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        name = argument.removeprefix("--")
        settings.append(name if name == argument or "=" in name else f"{name}={next(remaining, '')}")
    return settings


def main(arguments: list[str]) -> None:
    """Print rows. Raises UserError."""
    if {"--help", "-h"} & set(arguments):
        print(HELP, *describe(PrimerSettings(), none=""), sep="\n")
        return
    settings, problems = read_settings(PrimerSettings, without_dashes(arguments))
    if settings.pairs < 1:
        problems.append(f"pairs={settings.pairs}: must be at least 1")
    if problems:
        raise UserError(*problems)
    try:
        found = rows(settings.kind, settings.pairs, settings.seed)
    except ValueError as error:
        raise UserError(f"pairs={settings.pairs}: {error}") from None
    chosen = [row for row in found if settings.split in (None, row["split"])]
    if not chosen:
        raise UserError(f"split={settings.split}: none of {settings.pairs} pairs is in it; ask for more with pairs=N")
    if settings.format == "svg":
        sys.stdout.write(picture([links(row) for row in chosen]))
    else:
        sys.stdout.writelines(FORMATS[settings.format](row) + "\n" for row in chosen)


if __name__ == "__main__":
    run_guarded(lambda: main(sys.argv[1:]))
