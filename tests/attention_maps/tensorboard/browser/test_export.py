"""The files that the export buttons save."""

from __future__ import annotations

import csv
import io
import json
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.attention_maps.tensorboard.browser.known import CROSS, TARGET, TEXT, TRANSLATION, State
from tests.attention_maps.tensorboard.browser.page import Page, wait_for


def saved(page: Page, downloads: Path, button: str) -> Path:
    """Press an export button and wait for its file."""
    for old in downloads.iterdir():
        old.unlink()
    page.driver.find_element("xpath", f"//div[contains(@class, 'export')]//button[.='{button}']").click()
    deadline = time.monotonic() + 30
    while True:
        files = [
            file
            for file in downloads.iterdir()
            if not file.name.endswith((".crdownload", ".tmp")) and file.stat().st_size
        ]
        if files:
            return files[0]
        assert time.monotonic() < deadline, f"{button} saved nothing: {page.text('.export-answer')}"
        time.sleep(0.05)


def test_csv_holds_the_weights_of_the_recording(views: Page, downloads: Path) -> None:
    """Guards against numbers that are rounded or transposed, tokens with commas that break the columns, and
    renormalised rows that are not marked as such."""
    views.show(**TRANSLATION, view="map")
    file = saved(views, downloads, "CSV")
    assert file.name == "translation_step_00000200_sample0_cross_layer0_head0.csv"
    raw = file.read_bytes().decode("utf-8-sig")
    assert raw.count("\r\n") == 8
    rows = list(csv.reader(io.StringIO(raw, newline="")))
    assert rows[0] == ["predicts", "Emi", "likes", "red", "apple", "s", ".", "</s>"]
    assert [row[0] for row in rows[1:]] == TARGET[1:]
    assert np.array_equal(np.array([row[1:] for row in rows[1:]], float), np.array(CROSS))
    views.show(**TRANSLATION, view="map", hide=True)
    rows = list(csv.reader(io.StringIO(saved(views, downloads, "CSV").read_bytes().decode("utf-8-sig"), newline="")))
    assert rows[0][-2:] == [".", "(hidden)"]
    assert [float(row[-1]) for row in rows[1:]] == [row[-1] for row in CROSS]


def test_json_says_what_the_numbers_are(views: Page, downloads: Path) -> None:
    """Guards against files without the source of the data."""
    views.show(**TRANSLATION, view="map", hide=True)
    content = json.loads(saved(views, downloads, "JSON").read_text("utf-8"))
    place = {key: content[key] for key in ("run", "recording", "step", "kind", "layer", "head", "rows_named_by")}
    assert place == TRANSLATION | {"step": 200, "rows_named_by": "predicts"}
    assert content["sample"] == {"number": 0, "name": "probe 1"}
    assert [key["text"] for key in content["keys"]] == ["Emi", "likes", "red", "apple", "s", "."]
    assert content["weights"][1] == pytest.approx([0, 0, 2 / 3, 1 / 3, 0, 0], abs=1e-6)
    assert content["hidden_share"][1] == 0.25


def test_svg_of_the_map_shows_hidden_shares_and_both_labels(views: Page, downloads: Path) -> None:
    """Guards against a drawing without the hidden shares that the page shows, or with one label per row where the page
    shows two."""
    views.show(**TRANSLATION, view="map", hide=True, gamma=0.5)
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    texts = [text for text in drawing.iter("{http://www.w3.org/2000/svg}text") if text.text]
    written = {text.text for text in texts}
    assert {"hidden", "predicts ↓", "source →", "reads", "colours: gamma 0.5"} <= written
    assert "hidden: attention on special tokens; rows renormalised to sum to 1" in written
    rows = [text for text in texts if text.get("text-anchor") == "end" and text.text in TARGET]
    assert [text.text for text in rows] == TARGET[1:]
    for row, other, weights in zip(rows, TARGET[:-1], CROSS, strict=True):
        beside = [text.text for text in texts if abs(float(text.get("y", 0)) - float(row.get("y", 0))) < 1]
        assert beside.count(other) == 1
        assert short(weights[-1]) in beside


def short(share: float) -> str:
    """Format a fraction as in pictures: .25."""
    return f"{share:.2f}".removeprefix("0") if share % 1 else f"{share:.0f}"


STORY = {"run": "history", "recording": "step_00000009"}
LABELS = {"induction since step 2, previous token only at the last step", "coreference only at the last step, diagonal"}


@pytest.mark.parametrize(
    ("state", "view", "drawn", "words"),
    [
        (TRANSLATION, "map", "", {"エミは", "好き", ".75", "cross-attention · layer 0 · head 0"}),
        (TRANSLATION, "lines", "", {"エミは", "Emi", "</s>"}),
        (TRANSLATION, "sentence", "", {"エミは", "Emi"}),
        (TRANSLATION, "alignment", "", {"エミは"}),
        (TRANSLATION, "pair", ".pair-heads", {"75.0 %", "apple 25.0 %", "since step 200", "100", "200"}),
        (TEXT | {"token": "r4"}, "prediction", ".parts-sum", {"+2.50", "What predicts “.” after “pen”"}),
        (STORY, "story", ".story-events", LABELS | {"decoder layer 0 · head 0", "training step"}),
    ],
)
def test_every_drawing_is_an_svg_that_stands_alone(
    views: Page, downloads: Path, state: State, view: str, drawn: str, words: set[str]
) -> None:
    """Guards against drawings of another view, without their labels, or that need the page's style sheet."""
    views.show(**state, view=view)
    if drawn:
        views.wait(f"return document.querySelector('{drawn}').textContent")
    file = saved(views, downloads, "SVG")
    if state is TRANSLATION:
        assert file.name == f"translation_step_00000200_sample0_cross_layer0_head0_{view}.svg"
    text = file.read_text("utf-8")
    drawing = ET.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    assert words <= {element.text for element in drawing.iter(f"{name}text")}
    assert {element.get("lang") for element in drawing.iter(f"{name}text") if element.text == "エミは"} <= {"ja"}
    assert not re.search(r"url\(|class=|<style|NaN|undefined|foreignObject", text)
    assert drawing.findtext(f"{name}title", "")


def test_the_story_is_saved_with_its_pictures(views: Page, downloads: Path) -> None:
    """Guards against saving the map instead of the story, and a story without the maps below it."""
    views.show(**TRANSLATION, view="story")
    views.wait("return document.querySelectorAll('.step-tile[title]').length > 1")
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    assert set(views.texts(".step-label")) <= {element.text for element in drawing.iter(f"{name}text")}
    pictures = [element.get("href", "") for element in drawing.iter(f"{name}image")]
    assert pictures == [views.picture(f".step-tile:nth-child({place}) canvas") for place in range(1, len(pictures) + 1)]
    assert saved(views, downloads, "PNG").name.endswith("_story.png")


def test_a_png_is_twice_the_size_of_the_drawing(views: Page, downloads: Path) -> None:
    """Guards against empty or low-resolution images."""
    views.show(**TRANSLATION, view="map")
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    png = saved(views, downloads, "PNG").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (2 * int(drawing.get("width", 0)), 2 * int(drawing.get("height", 0)))
    assert len(png) > 5000


def test_a_comparison_is_named_in_its_files(views: Page, downloads: Path) -> None:
    """Guards against differences that are not marked as such, and file names with characters at which other tools
    split."""
    views.show(**TRANSLATION, view="map", against="step:step_00000100")
    file = saved(views, downloads, "JSON")
    assert file.name == "translation_step_00000200_sample0_cross_layer0_head0_minus_step-step_00000100.json"
    content = json.loads(file.read_text("utf-8"))
    assert content["minus"] == "step:step_00000100"
    assert content["weights"][0][0] == 0.625


def test_links_are_saved_as_a_text_file(views: Page, downloads: Path) -> None:
    """Guards against different links than in the alignment view."""
    views.show(**TRANSLATION, view="map", readout="mutual")
    assert saved(views, downloads, "Pharaoh").read_text("utf-8") == "0-0 2-1 3-2 5-5\n"
    views.show(**TRANSLATION, view="alignment", averaged="layer")
    wait_for(views, ".alignment-view .view-note", "mean of 2 heads")
    text = views.find(".pharaoh").get_attribute("value")
    assert saved(views, downloads, "Pharaoh").read_text("utf-8") == f"{text}\n"


def test_the_link_to_a_view_is_copied(views: Page) -> None:
    """Guards against a link that does not restore the state."""
    views.show(**TRANSLATION, view="lines", heads="0,1", token="r2")
    views.driver.find_element("xpath", "//div[contains(@class, 'export')]//button[.='copy link']").click()
    wait_for(views, ".export-answer", "copied")
    copied = views.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert copied.startswith(views.address)
    for part in ("run=translation", "view=lines", "heads=0%2C1", "token=r2", "recording=step_00000200"):
        assert f"p.attention.{part}" in copied
