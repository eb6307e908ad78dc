"""`python -m data.primer --kind sentences --pairs 1000 --format tsv`: the embedded corpus on standard output."""

from __future__ import annotations

import argparse
import json
import sys

from data.primer import rows


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
        choices=("tsv", "jsonl"),
        default="tsv",
        help="tsv: English, Japanese; jsonl: whole rows with gold spans",
    )
    options = parser.parse_args(arguments)
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    for row in rows(options.kind, options.pairs, options.seed):
        if options.split and row["split"] != options.split:
            continue
        if options.format == "jsonl":
            line = json.dumps(row, ensure_ascii=False)
        else:
            line = "\t".join((row.get("source") or row["text"], row.get("target") or row["japanese"]))
        sys.stdout.write(line + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        sys.stderr.close()
