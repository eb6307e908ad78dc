"""The pair view in a browser."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, token, wait_for
from tests.attention_maps.tensorboard.browser.test_export import saved

HEADS = ".pair-heads li"
LOADED = "return document.querySelector('.pair-view')?.getAttribute('aria-busy') === 'false'"


def lines(page: Page) -> list[str]:
    """Return the text of each line of the list, which may be built anew meanwhile."""
    script = "return [...document.querySelectorAll(arguments[0])].map(({innerText}) => innerText)"
    return [" ".join(line.split()) for line in page.driver.execute_script(script, HEADS)]


def test_the_first_gold_pair_is_shown_first(views: Page) -> None:
    """Guards against an empty view at its first opening, and heads of other layers that are left out."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    assert views.text(".pair-view h3") == "From “エミは” to “Emi” at step 200: most by layer 0 · head 1, 100.0 %"
    assert lines(views) == [
        "layer 0 · head 1 predicts it 100.0 % 100",  # diagonal
        "layer 0 · head 0 predicts it 75.0 % 200",
        "layer 1 · head 0 predicts it 14.3 % 100",
        "layer 1 · head 1 predicts it 14.3 % 100",
    ]
    assert views.text(".pair-choice").startswith("No word is selected: this is the first pair with a gold label.")
    views.show(**TEXT, view="pair")
    wait_for(views, ".pair-view h3", "her")
    assert views.text(".pair-view h3").startswith("From “her” to “Kate”")


def test_both_rows_of_a_word_count(views: Page) -> None:
    """Guards against an answer that depends on how rows are labelled: a head that attends to the noun in the row that
    predicts the pronoun would be overlooked."""
    views.show(**TEXT, view="pair", token="r3", partner="c1")
    wait_for(views, ".pair-view h3", "From “her” to “Kate” at step 100: most by layer 0 · head 0, ")
    assert not views.find(".controls button[value=predicts]").is_displayed()
    found = lines(views)
    assert found[0] == "layer 0 · head 0 predicts it 33.3 % 100"
    assert not views.text(".pair-choice").startswith("No word is selected")
    views.show(**TEXT, view="pair", rows="predicts", token="r2", partner="c1")
    views.wait(LOADED)
    assert views.text(".pair-view h3").startswith("From “her” to “Kate” at step 100: most by layer 0 · head 0, ")
    assert lines(views) == found
    views.show(**TEXT, view="pair", rows="reads", token="r3", partner="c1")
    views.wait(LOADED)
    views.click(f"{HEADS}:nth-child(1) button")
    assert {"p.attention.rows=predicts", "p.attention.token=r2"} <= {*views.hash.split("&")}, "the row of this head"


def test_two_clicks_choose_another_pair(views: Page) -> None:
    """Guards against a first text that chooses the second word, and numbers of the pair before."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    views.click(f".pair-texts > :nth-child(1) {token('r1')}")
    wait_for(views, ".pair-view h3", "赤い")
    assert views.text(".pair-view h3").startswith("From “赤い” to “red”")
    views.click(f".pair-texts > :nth-child(2) {token('c3')}")
    wait_for(views, ".pair-view h3", "apple")
    assert lines(views)[0] == "layer 0 · head 0 reads it 50.0 % 200"
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
    assert lines(views)[-1] == "layer 0 · head 0 predicts it 12.5 % 200"
    views.driver.find_element("xpath", "//button[.='layer 0 · head 1']").click()
    views.settle()
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 1"


def test_the_pair_is_saved_as_a_drawing(views: Page, downloads: Path) -> None:
    """Guards against a drawing of the map instead."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "“エミは” to “Emi” at step 200: most by layer 0 · head 1, 100.0 %")
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    texts = {one.text for one in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {"layer 0 · head 0", "75.0 %", "since step 200"} <= texts
