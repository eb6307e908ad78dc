"""The last screen of `make demo`."""

from __future__ import annotations

import json
from pathlib import Path
from unicodedata import east_asian_width

from training.demo_screen import demo_screen

STORY = "One day, Emi lost a ring in the garden. She looked for it with Ken because she was sad. " * 4
SOURCE, TRANSLATION = "Emi prefers the apple over the orange because it is less acidic.", "エミはりんごの方が好きです。"


def test_the_demo_ends_with_a_screen_that_fits(tmp_path: Path) -> None:
    """Guards against scores that scroll away behind tables, and translations under another source."""
    gpt, translator = tmp_path / "demo_gpt", tmp_path / "demo_enja"
    stories, translations = {"test/pronouns": 61.4, "test/answers": 87.2}, {"novel/exact": 99.75, "novel/chrf": 99.9}
    for run, figures in ((gpt, stories), (translator, translations)):
        run.mkdir()
        (run / "test.json").write_text(json.dumps(figures), encoding="utf-8")
    losses = "".join(json.dumps({"step": step, "val/loss": 1 / step}) + "\n" for step in (1, 2, 3))
    (gpt / "metrics.jsonl").write_text(losses, encoding="utf-8")
    rows = [f"{number} {SOURCE}\tan answer\t{number} {TRANSLATION}" for number in range(800)]
    (translator / "translations.novel.tsv").write_text(
        "\n".join(["source\treference\thypothesis", *rows]) + "\n", encoding="utf-8"
    )
    lines = demo_screen(gpt, translator, [STORY, STORY + STORY, STORY, STORY])
    text = "\n".join(lines)
    assert 24 <= len(lines) <= 42
    for line in lines[:-4]:  # the folder of the test is a long one
        assert sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line) <= 100 + len(str(tmp_path))
    assert "validation loss 0.33" in text
    assert "right answers to 87 %" in text
    assert "antecedents for 61 %" in text
    assert "99.8 % exact, chrF 99.9" in text
    assert text.count(SOURCE) == 8
    for number in range(0, 800, 100):
        place = lines.index(f"  {number} {SOURCE}")
        assert lines[place + 1] == f"    {number} {TRANSLATION}"
