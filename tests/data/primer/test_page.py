"""docs/primer.md shows what the grammar generates today."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from data.primer import rows
from data.primer.alignment_picture import links, picture
from data.primer.examples import FOLDER, examples, markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "primer.md"


def test_page_examples_are_current() -> None:
    """Guards against outdated examples after a change of the grammar; `python -m data.primer.examples` redraws them."""
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"^!\[.*\]\(images/primer/.*\)$", page, flags=re.MULTILINE)
    made = examples()
    assert len(made) >= 20
    assert shown == [markdown(file, english, japanese) for file, english, japanese, _ in made]
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")} == {
        file: drawn for file, _, _, drawn in made
    }


def test_a_picture_draws_every_link_between_its_words() -> None:
    """Guards against a line that starts or ends at the wrong word."""
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
