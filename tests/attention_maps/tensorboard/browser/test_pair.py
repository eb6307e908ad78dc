"""The pair view in a browser."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, token, wait_for
from tests.attention_maps.tensorboard.browser.test_export import saved

HEADS = ".pair-heads li"


def lines(page: Page) -> list[str]:
    """Return the text of each line of the list."""
    return [" ".join(line.split()) for line in page.texts(HEADS)]


def test_the_first_gold_pair_is_shown_first(views: Page) -> None:
    """Guards against an empty view at its first opening, and heads of other layers that are left out."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    assert views.text(".pair-view h3") == "From “エミは” to “Emi” at step 200: most by layer 0 · head 1, 100.0 %"
    assert lines(views) == [
        "layer 0 · head 1 100.0 % since step 100",  # diagonal
        "layer 0 · head 0 75.0 % since step 200",
        "layer 1 · head 0 14.3 % since step 100",
        "layer 1 · head 1 14.3 % since step 100",
    ]
    views.show(**TEXT, view="pair")
    wait_for(views, ".pair-view h3", "her")
    assert views.text(".pair-view h3").startswith("From “her” to “Kate”")


def test_the_other_row_of_a_word_is_one_click_away(views: Page) -> None:
    """Guards against a head that is overlooked because it attends to the word in the row that predicts the pronoun."""
    views.show(**TEXT, view="pair")
    other = "This is the row that reads “her”. In the row that predicts it, most by layer 0 · head 0, 33.3 %."
    wait_for(views, ".pair-other", other)
    views.click(".pair-other button")
    wait_for(views, ".pair-view h3", "From “her” to “Kate” at step 100: most by layer 0 · head 0, 33.3 %")
    assert views.text(".pair-other").startswith("This is the row that predicts “her”. In the row that reads it, ")
    assert {f"p.attention.{state}" for state in ("rows=predicts", "token=r2", "partner=c1")} <= {*views.hash.split("&")}


def test_two_clicks_choose_another_pair(views: Page) -> None:
    """Guards against a first text that chooses the second word, and numbers of the pair before."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    views.click(f".pair-view > :nth-child(1) {token('r1')}")
    wait_for(views, ".pair-view h3", "赤い")
    assert views.text(".pair-view h3").startswith("From “赤い” to “red”")
    views.click(f".pair-view > :nth-child(2) {token('c3')}")
    wait_for(views, ".pair-view h3", "apple")
    assert lines(views)[0] == "layer 0 · head 0 25.0 % since step 100"
    assert {"token=r1", "partner=c3"} <= {part.removeprefix("p.attention.") for part in views.hash.split("&")}


def test_a_head_opens_its_map_and_a_line_leads_to_the_step(views: Page) -> None:
    """Guards the way from a pair of words to the head that links them, and to the step at which it learnt it."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    canvas = f"{HEADS}:nth-child(2) canvas"
    views.find(canvas)
    views.driver.execute_script(
        "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", canvas
    )  # at its left end
    views.wait("return document.querySelector('.step-title').textContent === 'step 100'")
    wait_for(views, ".pair-view h3", "step 100")
    assert lines(views)[-1] == "layer 0 · head 0 12.5 % since step 200"
    views.driver.find_element("xpath", "//button[.='layer 0 · head 1']").click()
    views.settle()
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 1"


def test_the_pair_is_saved_as_a_drawing(views: Page, downloads: Path) -> None:
    """Guards against a drawing of the map instead."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    texts = {one.text for one in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {"layer 0 · head 0", "75.0 %", "since step 200"} <= texts
