"""The pair view in a browser."""

from __future__ import annotations

from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, token, wait_for

HEADS = ".pair-heads li"
LOADED = "return document.querySelector('.pair-view')?.getAttribute('aria-busy') === 'false'"


def lines(page: Page) -> list[str]:
    """Return the text of each line of the list, which may be built anew meanwhile."""
    script = "return [...document.querySelectorAll(arguments[0])].map(({innerText}) => innerText)"
    return [" ".join(line.split()) for line in page.driver.execute_script(script, HEADS)]


def test_a_gold_pair_is_shown_first_beside_its_rivals(views: Page) -> None:
    """Guards against an empty view at its first opening, heads of other layers that are left out, and a large weight
    that means nothing because another word gets as much."""
    views.show(**TRANSLATION, view="pair")
    wait_for(views, ".pair-view h3", "エミは")
    assert views.text(".pair-view h3") == "From “エミは” to “Emi” at step 200: most by layer 0 · head 1, 100.0 %"
    assert lines(views) == [
        "layer 0 · head 1 predicts it 100.0 % +100.0 100",  # diagonal
        "layer 0 · head 0 predicts it 75.0 % apple 25.0 % +50.0 only the last",
        "layer 1 · head 0 predicts it 14.3 % likes 14.3 % 0.0 100",
        "layer 1 · head 1 predicts it 14.3 % likes 14.3 % 0.0 100",
    ]
    assert views.text(".finding") == (
        "All heads, ranked by their attention from “エミは” to “Emi”. This is the first pair with a gold label. "
        "Click other words. back to the finding"
    )
    assert " ".join(views.text(".pair-axis").split()) == "0 to 100.0 %, steps 100 200"
    hovered = views.hover(f"{HEADS}:nth-child(2) canvas", 4, 10)
    assert hovered[:2] == ["step 100: 12.5 %", "layer 0 · head 0"]
    views.show(**TEXT, view="pair")
    wait_for(views, ".pair-view h3", "Kate")
    heading = "From “She” to “Kate”{} at step 100: most by layer 0 · head 0, {} %; strongest other {}"
    # In the row that predicts “She”, each of six tokens gets the same weight; “her” stands for Kate.
    mentioned = heading.format(" (all mentions)", 33.3, "noun “pen”, 16.7 %")
    assert views.text(".pair-view h3") == mentioned
    views.show(**TEXT, view="pair", sample=2)  # whose mentions are not known
    wait_for(views, ".pair-view h3", "other word")
    assert views.text(".pair-view h3") == heading.format("", "25.0", "word “pen”, 12.5 %")


def test_without_gold_labels_the_largest_weight_is_shown(views: Page) -> None:
    """Guards against a first row that is left out although it is not the trivial one of a causal map."""
    for kind, first, after in (("encoder", "Emi", ""), ("decoder", "エミは", " after the first row")):
        views.show(**TRANSLATION | {"kind": kind}, view="pair")
        wait_for(views, ".pair-view h3", f"From “{first}” to")
        where = f"the pair with the largest weight in layer 0 · head 0{after}"
        assert f"”. This is {where}. Click other words." in views.text(".finding")


def test_a_pair_is_called_the_largest_only_if_it_is(views: Page) -> None:
    """Guards against a second word that is left from another kind of attention, and a map that is not named."""
    views.show(**TRANSLATION, view="pair", token="r1", partner="c5")
    wait_for(views, ".pair-view h3", "From “赤い” to “.”")
    views.click(".bar button[value=encoder]")
    wait_for(views, ".pair-view h3", "From “Emi” to “red”")  # all weights are equal: the first that are not neighbours
    assert "partner" not in views.hash
    views.show(**TRANSLATION | {"kind": "encoder", "head": "mean"}, view="pair", partner="c5")
    wait_for(views, ".finding", "the largest weight in layer 0 · mean of 2 heads")
    assert views.text(".pair-view h3").startswith("From “Emi” to “Emi”")
    views.click(f".pair-texts > :nth-child(2) {token('c5')}")
    wait_for(views, ".pair-view h3", "From “Emi” to “.”")
    assert "This is" not in views.text(".finding")


def test_a_repeated_noun_is_not_called_a_pronoun(views: Page) -> None:
    """Guards against a pronoun in a text whose only gold label is that of an answer."""
    views.show(**TEXT | {"run": "answer"}, view="pair")
    wait_for(views, ".pair-view h3", "From “Kate” to “Kate”")
    assert "This is the last word with a gold label." in views.text(".finding")


def test_the_title_names_all_heads_and_the_selected_one(views: Page) -> None:
    """Guards against the name of a mean over heads that the view does not show."""
    views.show(**TEXT | {"head": "mean"}, view="pair")
    wait_for(views, ".pair-view h3", "Kate")
    assert views.text(".frame-name") == "decoder self-attention · all heads, from one word to another"
    views.show(**TEXT, view="pair")
    assert views.text(".frame-name").endswith(" · selected: layer 0 · head 0")


def test_every_gold_pair_is_offered(views: Page) -> None:
    """Guards against pronouns that must be found in the text, and a first one that hides the others."""
    views.show(**TEXT, view="pair")
    wait_for(views, ".pair-view h3", "She")
    assert views.texts(".pair-chips .chip") == ["her → Kate", "She → Kate"]
    assert views.text(".pair-chips [aria-pressed=true]") == "She → Kate"
    views.click(".pair-chips .chip")
    wait_for(views, ".pair-view h3", "From “her” to “Kate”")
    assert {"p.attention.token=r3", "p.attention.partner=c1"} <= {*views.hash.split("&")}
    assert views.text(".pair-chips [aria-pressed=true]") == "her → Kate"
    views.choose("example", views.texts(f"#{views.labelled('example')} option")[1])
    assert {"p.attention.token=r3", "p.attention.partner=c1", "p.attention.sample=1"} <= {*views.hash.split("&")}


def test_both_rows_of_a_word_count(views: Page) -> None:
    """Guards against an answer that depends on how rows are labelled: a head that attends to the noun in the row that
    predicts the pronoun would be overlooked."""
    views.show(**TEXT, view="pair", token="r3", partner="c1", options=True)
    wait_for(views, ".pair-view h3", "From “her” to “Kate” (all mentions) at step 100: most by layer 0 · head 0, ")
    assert views.find(".fold-body input").is_displayed()
    assert not views.find(".fold-body button[value=predicts]").is_displayed()
    ranking = lines(views)
    assert ranking[0] == "layer 0 · head 0 predicts it 33.3 % 100"
    assert "This is" not in views.text(".finding")
    views.show(**TEXT, view="pair", rows="predicts", token="r2", partner="c1")
    views.wait(LOADED)
    assert views.text(".pair-view h3").startswith(
        "From “her” to “Kate” (all mentions) at step 100: most by layer 0 · head 0, "
    )
    assert lines(views) == ranking
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
    assert lines(views)[0] == "layer 0 · head 0 reads it 50.0 % s 25.0 % +25.0 only the last"
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
    views.settle()
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 0"
    views.click("#tab-pair")
    wait_for(views, ".pair-view h3", "step 100")
    assert lines(views)[-1] == "layer 0 · head 0 predicts it 12.5 % likes 12.5 % 0.0 only the last"
    views.driver.find_element("xpath", "//button[.='layer 0 · head 1']").click()
    views.settle()
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 1"
    assert views.text(".step-title") == "step 100", "the step shown"
    views.click("#tab-pair")
    views.wait(LOADED)
    views.driver.find_element("xpath", "//button[.='only the last']").click()
    views.settle()
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 0"
    assert views.text(".step-title") == "step 200"
