"""`python -m data.primer --kind sentences --pairs 1000 --format tsv`: the embedded corpus on standard output."""

from __future__ import annotations

import argparse
import json
import sys

from data.alignment import pharaoh, project
from data.primer import rows
from data.primer.corpus import Row
from data.primer.drawing import links, picture


def main(arguments: list[str] | None = None) -> int:
    """Print rows; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m data.primer", description="Write the embedded English-Japanese corpus."
    )
    parser.add_argument("--kind", choices=("sentences", "stories"), default="sentences")
    parser.add_argument("--pairs", type=int, default=1000, help="how many distinct pairs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another selection (default: %(default)s)")
    parser.add_argument("--split", choices=("train", "valid", "test", "novel"), help="only this split")
    parser.add_argument(
        "--format",
        choices=("tsv", "jsonl", "pharaoh", "svg"),
        default="tsv",
        help="tsv: English, Japanese; jsonl: whole rows with gold spans; pharaoh: both sides in words, and their links as 0-0 1-2; "
        "svg: a picture of the links, for a browser",
    )
    options = parser.parse_args(arguments)
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    chosen = [
        row
        for row in rows(options.kind, options.pairs, options.seed)
        if not options.split or row["split"] == options.split
    ]
    if options.format == "svg":
        sys.stdout.write(picture([links(row) for row in chosen]))
        return 0
    for row in chosen:
        sys.stdout.write(FORMATS[options.format](row) + "\n")
    return 0


def sides(row: Row) -> tuple[str, str]:
    """English and Japanese of a sentence or a story."""
    return row.get("source") or row["text"], row.get("target") or row["japanese"]


def _tsv(row: Row) -> str:
    return "\t".join(sides(row))


def _jsonl(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _pharaoh(row: Row) -> str:
    words = (" ".join(side[a:b] for a, b in spans) for side, spans in zip(sides(row), row["words"], strict=True))
    return "\t".join((*words, pharaoh(project(row["alignment"], *row["words"]))))


FORMATS = {"tsv": _tsv, "jsonl": _jsonl, "pharaoh": _pharaoh}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        sys.stderr.close()
