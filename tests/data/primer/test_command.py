"""`python -m data.primer`: formats, selection of rows, and errors."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from configs.program import exit_code_of
from data.primer import rows
from data.primer.__main__ import main
from tests.conftest import ROOT, environment

Lines = Callable[..., list[str]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """Return a function that runs the command with options and returns the printed lines."""

    def run(*options: str) -> list[str]:
        main([*options])
        return capsys.readouterr().out.removesuffix("\n").split("\n")

    return run


def test_tsv_and_json_lines_contain_the_rows(lines: Lines) -> None:
    """Guards users who export the corpus with this command."""
    table = lines("pairs=12", "seed=5")
    assert [line.split("\t") for line in table] == [[row["source"], row["target"]] for row in rows("sentences", 12, 5)]
    stories = lines("--kind", "stories", "--pairs", "6", "--format", "jsonl")
    assert [json.loads(line) for line in stories] == rows("stories", 6, 1)


@pytest.mark.parametrize("kind", ["sentences", "stories"])
def test_pharaoh_links_are_word_indices(kind: str, lines: Lines) -> None:
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


def test_one_split_as_text_and_as_picture(lines: Lines) -> None:
    """Guards `--split`: it prints the rows of one split of the requested pairs."""
    chosen = [row["source"] for row in rows("sentences", 300, 1) if row["split"] == "novel"]
    assert [line.split("\t")[0] for line in lines("--pairs", "300", "--split", "novel")] == chosen
    svg = ElementTree.fromstring("\n".join(lines("--pairs", "300", "--split", "novel", "--format", "svg")))
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
def test_invalid_settings_are_one_line(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a traceback, and against an empty file with exit code 0."""
    assert exit_code_of(lambda: main(options)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err.splitlines()[-1]


def test_japanese_is_utf8_whatever_the_terminal(lines: Lines) -> None:
    """Guards against an encoding error in a Latin-1 locale."""
    command = [sys.executable, "-m", "data.primer", "pairs=3"]
    latin = environment() | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=ROOT, env=latin, capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().splitlines() == lines("pairs=3")


@pytest.mark.parametrize(
    ("target", "status", "error"), [("| true", 141, ""), ("> /dev/full", 2, "error: output: No space left on device")]
)
def test_closed_pipe_and_full_disk_are_no_traceback(target: str, status: int, error: str) -> None:
    """Guards against a traceback with `| head`, and against exit code 0 on a full disk."""
    command = f"{sys.executable} -m data.primer --pairs 400 {target}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert error in done.stderr
