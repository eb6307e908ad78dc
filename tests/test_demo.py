"""The last screen of `make demo`."""

from __future__ import annotations

import json
from pathlib import Path
from unicodedata import east_asian_width

from demo import first_of_each_kind, screen
from tests.conftest import Run

STORY = "One day, Emi lost a ring in the garden. She looked for it with Ken because she was sad. " * 4
SOURCE, TRANSLATION = "Emi prefers the apple over the orange because it is less acidic.", "エミはりんごの方が好きです。"


def test_the_stories_are_the_first_of_each_kind() -> None:
    """Guards against three stories of one kind, chosen by chance, and one that asks nothing under that title."""
    who, again, what = "Ken ran. Who ran? Ken did.", "Emi sat. Who sat? Emi did.", "He had tea. What did he have? Tea."
    none, both = "A dog ran. 'Hello,' he said.", "It rained. What was wet? A cat. Who was dry? Ken."
    where = "He ran home. Where did he run? Home."
    assert first_of_each_kind(iter([who, again, none, what, both, where, none])) == [who, what, where]
    assert first_of_each_kind([none]) == []
    assert first_of_each_kind([both, what, who]) == [both, who]


def test_the_demo_ends_with_a_screen_that_fits(tmp_path: Path) -> None:
    """Guards against scores that scroll away behind tables, and translations under another source."""
    gpt, translator = tmp_path / "demo_gpt", tmp_path / "demo_enja"
    stories, translations = {"test/answers": 87.2}, {"novel/exact": 99.75}
    for run, figures in ((gpt, stories), (translator, translations)):
        run.mkdir()
        (run / "test.json").write_text(json.dumps(figures), encoding="utf-8")
    rows = [f"{number} {SOURCE}\tan answer\t{number} {TRANSLATION}" for number in range(800)]
    (translator / "translations.novel.tsv").write_text(
        "\n".join(["source\treference\thypothesis", *rows]) + "\n", encoding="utf-8"
    )
    lines = screen(gpt, translator, [STORY, STORY, STORY], ["Who ran? Ken did.", "Who sat? Emi did."])
    text = "\n".join(lines)
    assert 24 <= len(lines) <= 50
    for line in lines[: lines.index("Where to look next")]:  # the folder of the test is a long one
        assert sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line) <= 100 + len(str(tmp_path))
    assert "answers 87 % of the questions" in text
    assert "  Who ran? Ken did." in lines
    assert "99.8 % of unseen combinations exactly" in text
    assert text.count(SOURCE) == 8
    for number in range(0, 800, 100):
        place = lines.index(f"  {number} {SOURCE}")
        assert lines[place + 1] == f"    {number} {TRANSLATION}"


def test_the_screen_of_two_runs(trained: Path, program: Run) -> None:
    """Guards against a demo that trains for ten minutes and ends with an error."""
    runs = trained / "runs"
    (runs / "gpt" / "test.json").write_text('{"test/answers": 50}')
    (runs / "translate" / "test.json").write_text('{"novel/exact": 1}')
    (runs / "translate" / "translations.novel.tsv").write_text(f"source\treference\thypothesis\n{SOURCE}\tx\ty\n")
    done = program("demo.py", str(runs / "gpt"), str(runs / "translate"))
    assert done.returncode == 0, done.stderr
    assert "Who was kind?" in " ".join(done.stdout.split())
