"""`python -m data.primer --kind sentences --pairs 1000 --format tsv`: the embedded corpus on standard output."""

from __future__ import annotations

import argparse
import json
import sys

from configs.program import exit_code_of
from data.primer import rows
from data.primer.corpus import Row, sides
from data.primer.drawing import links, picture
from data.tokens.word_alignment import pharaoh, project


def _tsv(row: Row) -> str:
    return "\t".join(sides(row))


def _jsonl(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _pharaoh(row: Row) -> str:
    words = (" ".join(side[a:b] for a, b in spans) for side, spans in zip(sides(row), row["words"], strict=True))
    return "\t".join((*words, pharaoh(project(row["alignment"], *row["words"]))))


FORMATS = {"tsv": _tsv, "jsonl": _jsonl, "pharaoh": _pharaoh}
"""A line for a row; `svg` is one picture of all."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m data.primer", description="Write the embedded English-Japanese corpus."
    )
    parser.add_argument("--kind", choices=("sentences", "stories"), default="sentences")
    parser.add_argument(
        "--pairs", type=int, default=1000, help="how many distinct pairs, of all splits together (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed, another selection (default: %(default)s)")
    parser.add_argument(
        "--split",
        choices=("train", "valid", "test", "novel"),
        help="of these pairs, those of one split (test: 2 in 100)",
    )
    parser.add_argument(
        "--format",
        choices=(*FORMATS, "svg"),
        default="tsv",
        help=(
            "tsv: English, Japanese; jsonl: whole rows with gold spans; pharaoh: both sides in words, and their links "
            "as 0-0 1-2; svg: a picture of the links, for a browser"
        ),
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Print rows. Bad requests end with one line and exit status 2."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    try:
        found = rows(options.kind, options.pairs, options.seed)
    except ValueError as error:
        parser.error(f"--pairs={options.pairs}: {error}")
    chosen = [row for row in found if options.split in (None, row["split"])]
    if not chosen:
        parser.error(f"--split={options.split}: none of {options.pairs} pairs is in it; ask for more with --pairs")
    if options.format == "svg":
        sys.stdout.write(picture([links(row) for row in chosen]))
    else:
        sys.stdout.writelines(FORMATS[options.format](row) + "\n" for row in chosen)


if __name__ == "__main__":
    raise SystemExit(exit_code_of(main))
