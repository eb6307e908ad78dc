"""The prediction view in a browser."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, token, wait_for

NUMBERS = ".parts .bar-number"


def test_the_bars_of_a_next_token_add_up_to_its_logit(views: Page) -> None:
    """Guards against bars of another token, part or position, and a sum that is not that of the bars."""
    views.show(**TEXT, view="prediction", token="r4")
    wait_for(views, ".parts-sum", "Sum")
    assert views.text(".prediction-view h3") == "What predicts “.” after “pen”"
    assert views.texts(".part-name") == ["token embedding", "layer 0 · head 0", "layer 0 · head 1", "layer 0 · MLP"]
    assert views.texts(NUMBERS) == ["+1.00", "+2.50", "−0.50", "+0.25"]
    assert views.text(".parts-sum") == "Sum of the bars +3.25; logit, relative to the mean of all tokens: +3.25."
    views.choose("order", "largest first")
    assert views.texts(NUMBERS) == ["+2.50", "+1.00", "−0.50", "+0.25"]
    views.choose("order", "as in the model")
    views.click("button[value=heads]")
    assert views.texts(NUMBERS) == ["+2.50", "−0.50"], "an MLP may dwarf the heads"
    assert views.text(".parts-sum").startswith("Sum of the heads +2.00. Sum of all parts +3.25; logit")
    assert views.text(".parts-exact").startswith("All parts add up to it"), "the bars of the heads alone do not"
    views.click(".controls-of-view button[value=all]")


def test_a_difference_from_the_logit_is_explained(views: Page) -> None:
    """Guards against bars that do not add up to the logit without a word, and a word where they do."""
    views.show(**TEXT, view="prediction", token="r4")
    wait_for(views, ".parts-exact", "All parts add up to it: the difference is at most 1 part in 10,000")
    views.show(**TEXT | {"run": "rounded"}, view="prediction", token="r4")
    wait_for(views, ".parts-sum", "Sum of the bars +3.25; logit, relative to the mean of all tokens: +3.21.")
    assert views.text(".parts-exact").startswith("The difference of 0.04 is rounding: a model that trains in bfloat16")


def test_one_token_is_explained_against_another(views: Page) -> None:
    """Guards against a difference with the wrong sign, and a token against itself."""
    views.show(**TEXT, view="prediction", token="r4")
    wait_for(views, ".parts-sum", "Sum")
    assert views.texts(f"#{views.labelled('against')} option") == ["the mean of all tokens", "pen 50.0 %"]
    views.choose("against", "pen 50.0 %")
    wait_for(views, ".parts-sum", "difference")
    assert views.text(".prediction-view h3") == "What predicts “.” after “pen” rather than “pen”"
    assert views.texts(NUMBERS) == ["0.00", "+2.00", "0.00", "−0.75"]
    assert views.text(".parts-sum") == "Sum of the bars +1.25; difference of the logits: +1.25."
    views.choose("token", "pen 50.0 %")
    wait_for(views, ".parts-sum", "+2.00")
    assert views.texts(NUMBERS) == ["+1.00", "+0.50", "−0.50", "+1.00"]


def test_the_row_that_writes_the_first_pronoun_is_shown_first(views: Page) -> None:
    """Guards against an empty view at its first opening; arrow keys move on, as in every text."""
    views.show(**TEXT, view="prediction")
    wait_for(views, ".parts-sum", "Sum")
    assert views.text(".prediction-view h3") == "What predicts “her” after “hid”"
    assert views.texts(".token[aria-pressed=true]") == ["her"]
    views.find(token("r2")).send_keys(Keys.ARROW_RIGHT)
    views.settle()
    assert "token=r3" in views.hash
    assert views.text(".prediction-view h3") == "What predicts “pen” after “her”"


def test_a_bar_leads_to_its_head(views: Page) -> None:
    """Guards against bars that lead to another head; the row stays selected."""
    views.show(**TEXT, view="prediction")
    wait_for(views, ".parts-sum", "Sum")
    views.driver.find_element("xpath", "//button[.='layer 0 · head 1']").click()
    views.settle()
    assert views.text(".frame-name") == "next token · all parts of the model · selected: layer 0 · head 1"
    assert "token=r2" in views.hash
    views.wait("return document.querySelector('.part-name[aria-pressed=true]')?.textContent === 'layer 0 · head 1'")


def test_the_lens_has_a_line_for_each_layer(views: Page) -> None:
    """Guards against layers in another order, and against another position."""
    views.show(**TEXT, view="prediction", token="r3")
    lines = [" ".join(line.split()) for line in views.texts(".lens tr")]
    assert lines == ["after layer 0 soon 25.0 %", "the model pen 50.0 %"]


def test_what_is_not_recorded_is_said(views: Page) -> None:
    """Guards against the bars of the recording before."""
    views.show(**TEXT, view="prediction")
    wait_for(views, ".parts-sum", "Sum")
    views.show(**TRANSLATION, view="prediction")
    wait_for(views, ".prediction-view .view-note", "does not contain the contributions")
    assert not views.texts(".part-name")
    views.show(**TRANSLATION | {"kind": "encoder"}, view="prediction")
    wait_for(views, ".prediction-view .view-note", "encoder predicts nothing")
