"""The page about the embedded corpus shows what the grammar makes today."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from data.primer import rows
from data.primer.drawing import links, picture
from data.primer.examples import FOLDER, examples, markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "primer.md"


def test_the_examples_are_those_of_the_grammar() -> None:
    """After a change of the grammar a stale page would teach what is no longer so; `python -m data.primer.examples`
    renews it."""
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"^!\[.*\]\(images/primer/.*\)$", page, flags=re.MULTILINE)
    made = examples()
    assert len(made) >= 20
    assert shown == [markdown(file, english, japanese) for file, english, japanese, _ in made]
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")} == {
        file: drawn for file, _, _, drawn in made
    }


def test_a_picture_draws_every_link_between_its_words() -> None:
    """A line that starts at another word would show a wrong link for a right one."""
    row = next(row for row in rows("sentences", 40, seed=4) if "'" in row["source"])
    linked = links(row)
    svg = ElementTree.fromstring(picture([linked]))
    name = "{http://www.w3.org/2000/svg}"
    places = [(float(text.get("x", "")), text.text) for text in svg.iter(f"{name}text")]
    assert [word for _, word in places] == [*linked.english, *linked.japanese]
    middles = [x for x, _ in places]
    lines = [re.findall(r"[\d.]+", path.get("d", "")) for path in svg.iter(f"{name}path")]
    expected = [(middles[i], middles[len(linked.english) + j]) for i, j in linked.links]
    assert [(float(a), float(c)) for a, _, c, _ in lines] == expected
