"""`python -m data.primer` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from data.primer import rows

ROOT = Path(__file__).resolve().parents[3]


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command with the given options."""
    command = [sys.executable, "-m", "data.primer", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, env=os.environ | environment, timeout=60)


def lines(*options: str) -> list[str]:
    """Return the printed lines."""
    done = run(*options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().removesuffix("\n").split("\n")


def test_tables_and_json_lines_are_the_rows() -> None:
    """Guards users who export the corpus with this command."""
    table = lines("pairs=12", "seed=5")
    assert [line.split("\t") for line in table] == [[row["source"], row["target"]] for row in rows("sentences", 12, 5)]
    stories = lines("--kind", "stories", "--pairs", "6", "--format", "jsonl")
    assert [json.loads(line) for line in stories] == rows("stories", 6, 1)


@pytest.mark.parametrize("kind", ["sentences", "stories"])
def test_pharaoh_lines_link_the_words_they_count(kind: str) -> None:
    """Guards against links that are off by one word: a wrong gold standard for any aligner scored against it."""
    for line, row in zip(lines("--kind", kind, "--pairs", "30", "--format", "pharaoh"), rows(kind, 30, 1), strict=True):
        english, japanese, links = (part.split(" ") for part in line.split("\t"))
        text, target = (row["source"], row["target"]) if kind == "sentences" else (row["text"], row["japanese"])
        assert "".join(english) == text.replace(" ", "")
        assert "".join(japanese) == target
        linked = {tuple(map(int, link.split("-"))) for link in links}
        for a, b, c, d in row["alignment"]:
            mine = [n for n, (s, e) in enumerate(row["words"][0]) if a <= s and e <= b]
            theirs = [n for n, (s, e) in enumerate(row["words"][1]) if c <= s and e <= d]
            assert "".join(english[n] for n in mine) == text[a:b].replace(" ", "")
            assert "".join(japanese[n] for n in theirs) == target[c:d]
            assert {(i, j) for i in mine for j in theirs} <= linked


def test_a_picture_and_a_split() -> None:
    """Guards `--split`: it prints the rows of one split of the requested pairs."""
    chosen = [row["source"] for row in rows("sentences", 300, 1) if row["split"] == "novel"]
    assert [line.split("\t")[0] for line in lines("--pairs", "300", "--split", "novel")] == chosen
    svg = ElementTree.fromstring(run("--pairs", "300", "--split", "novel", "--format", "svg").stdout)
    assert len(svg.findall("{http://www.w3.org/2000/svg}g")) == len(chosen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pairs=0"], "pairs=0: must be at least 1"),
        (["pairs=1", "split=test"], "split=test: none of 1 pairs is in it; ask for more with pairs=N"),
        (["--format", "xml"], "format=xml: must be tsv or jsonl or pharaoh or svg"),
        (["--poems"], "poems: unknown setting; there are kind, pairs, seed, split, format"),
    ],
)
def test_a_bad_request_is_one_message_and_exit_code_2(options: list[str], message: str) -> None:
    """Guards against a traceback, and against an empty file with exit code 0."""
    done = run(*options)
    assert done.returncode == 2
    assert done.stdout == b""
    assert message in done.stderr.decode().splitlines()[-1]


def test_japanese_is_utf8_whatever_the_terminal() -> None:
    """Guards against an encoding error in a Latin-1 locale."""
    assert run("--pairs", "3", PYTHONIOENCODING="latin-1").stdout == run("--pairs", "3").stdout != b""


@pytest.mark.parametrize(
    ("target", "status", "said"), [("| true", 141, ""), ("> /dev/full", 2, "error: output: No space left on device")]
)
def test_a_reader_that_leaves_and_a_full_disk(target: str, status: int, said: str) -> None:
    """Guards against a traceback with `| head`, and against exit code 0 on a full disk."""
    command = f"{sys.executable} -m data.primer --pairs 400 {target}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert said in done.stderr
