"""Print the built-in corpus: `python -m data.primer kind=sentences pairs=1000 format=tsv`."""

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
from data.primer.alignment_picture import links, picture
from data.primer.corpus import Row, sides

HELP = """Write the built-in English-Japanese corpus to standard output.

  python -m data.primer kind=stories pairs=100

Settings (key=value):"""


@dataclass
class PrimerSettings:
    """Settings of `python -m data.primer`."""

    kind: Literal["sentences", "stories"] = "sentences"
    """`sentences` (sentence pairs) or `stories`."""

    pairs: int = 1000
    """Number of distinct pairs over all splits."""

    seed: int = 1
    """Random seed that selects the pairs."""

    split: Literal["train", "valid", "test", "novel"] | None = None
    """Print only this split: `train`, `valid`, `test` or `novel` (the last three hold 2% of the rows each)."""

    format: Literal["tsv", "jsonl", "pharaoh", "svg"] = "tsv"
    """`tsv`: English, Japanese; `jsonl`: complete rows with gold spans; `pharaoh`: both sides as words, with links such
    as 0-0 1-2; `svg`: a picture of the links, for a browser."""


def _pharaoh(row: Row) -> str:
    linked = links(row)
    pairs = (f"{i}-{j}" for i, j in linked.links)
    return "\t".join((" ".join(linked.english), " ".join(linked.japanese), " ".join(pairs)))


FORMATS: dict[str, Callable[[Row], str]] = {
    "tsv": lambda row: "\t".join(sides(row)),
    "jsonl": lambda row: json.dumps(row, ensure_ascii=False),
    "pharaoh": _pharaoh,
}
"""Formats with one line per row; `svg` is a single picture of all rows."""


def without_dashes(arguments: list[str]) -> list[str]:
    """Convert `--key value` and `--key=value` to `key=value`."""
    settings: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        name = argument.removeprefix("--")
        settings.append(name if name == argument or "=" in name else f"{name}={next(remaining, '')}")
    return settings


def main(arguments: list[str]) -> None:
    """Print rows of the corpus. Raises UserError."""
    if {"--help", "-h"} & set(arguments):
        print(HELP, *describe(PrimerSettings(), none=""), sep="\n")
        return
    settings, problems = read_settings(PrimerSettings, without_dashes(arguments))
    if settings.pairs < 1:
        problems.append(f"pairs={settings.pairs}: must be at least 1")
    if problems:
        raise UserError(*problems)
    try:
        selected_rows = rows(settings.kind, settings.pairs, settings.seed)
    except ValueError as error:
        raise UserError(f"pairs={settings.pairs}: {error}") from None
    chosen = [row for row in selected_rows if settings.split in (None, row["split"])]
    if not chosen:
        raise UserError(f"split={settings.split}: none of {settings.pairs} pairs is in it; ask for more with pairs=N")
    if settings.format == "svg":
        sys.stdout.write(picture([links(row) for row in chosen]))
    else:
        sys.stdout.writelines(FORMATS[settings.format](row) + "\n" for row in chosen)


if __name__ == "__main__":
    run_guarded(lambda: main(sys.argv[1:]))
