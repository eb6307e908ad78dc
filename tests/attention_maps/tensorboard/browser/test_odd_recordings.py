"""Recordings that are old, damaged, tiny, large or unusual."""

from __future__ import annotations

import numpy as np
from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.conftest import ODD
from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from tests.attention_maps.tensorboard.browser.recordings import maps

VIEWS = ("map", "lines", "sentence", "prediction", "alignment", "curves")


def test_an_older_recording_works_and_says_what_it_lacks(page: Page) -> None:
    """Guards against requiring data that older versions did not record."""
    page.show(run="older", recording="step_00000100", values=True, head=1)
    assert "no value norms" in page.text(".message")
    assert page.text(".frame-name") == "cross-attention · layer 0 · head 1"
    page.show(run="older", recording="step_00000100", kind="encoder", head="rollout")
    assert page.find(".message").is_displayed()
    assert page.text(".frame-name") == "encoder self-attention · layer 0 · mean of 3 heads"
    page.show(run="older", recording="step_00000100", view="curves")
    page.wait("return document.querySelector('.chart-stage').textContent.includes('older version')")
    assert "contains no measures" in page.text(".grid-key")


def test_a_truncated_file_says_why_and_the_page_lives(page: Page) -> None:
    """Guards against a blank page, or the map of another step, if a file cannot be read."""
    page.show(run="damaged", recording="step_00000100")
    page.press(Keys.ARROW_RIGHT)
    assert page.text(".nothing").startswith("Step 200 cannot be shown: ")
    assert not any(page.find(selector).is_displayed() for selector in (".cells", ".tile", ".scores"))
    page.press(Keys.ARROW_RIGHT)
    assert page.find(".cells").is_displayed()
    assert "step 300" in page.text(".frame-detail")


def test_a_diverged_model_is_reported_in_every_view(page: Page) -> None:
    """Guards against NaN weights drawn like zeros."""
    for view in VIEWS:
        page.show(run="diverged", recording="step_00000100", layer=0, head=0, view=view, token="r3")
        assert "the model diverged" in page.text(".frame-detail")
        if view == "map":
            assert "219,38,38" in page.colours(".cells")
            assert "the model diverged" in page.text(".legend-line")
        if view == "lines":
            assert page.text(".view-note").startswith("0 lines")
    page.show(run="gpt", recording="step_00000100")
    assert "219,38,38" not in page.colours(".cells")


def test_512_tokens_are_drawn_and_zoomed(page: Page) -> None:
    """Guards against a map that is too large to display."""
    page.show(run="long", recording="step_00000100", head=0)
    assert page.find(".cells").get_attribute("aria-label").endswith("512 rows, 512 columns")
    assert "first 512 of 600 tokens" in page.text(".frame-detail")
    assert len(page.colours(".cells")) > 50
    page.press("0")  # once the page has its final size
    whole = page.picture(".cells")
    page.press("+", "+", "+")
    assert page.picture(".cells") != whole
    page.press("0")
    assert page.picture(".cells") == whole


def test_lists_that_are_cut_count_the_rest(page: Page) -> None:
    """Guards against the strongest few of many weights that look like all of them, and curves that skip a file."""
    here = {"run": "long", "recording": "step_00000100", "layer": 0, "head": 0, "token": "r200"}
    rest = int(np.count_nonzero(maps("decoder", 0, 2, 1024, 1024, 100)[0, 200])) - 6
    assert rest > 100
    page.show(**here)
    assert page.text(".readout").endswith(f" and {rest} more.")
    page.show(**here, view="sentence")
    assert f"and {rest} more" in page.text(".sentence-panel")
    page.show(run="damaged", recording="step_00000100", view="curves")
    wait_for(page, ".view-note", "cannot be read: step 200. ")


def test_a_run_can_have_any_name(page: Page) -> None:
    """Guards against names that terminate a URL, an attribute or a label."""
    page.show(run=ODD, recording="step_00000100", head=0)
    assert page.text(".frame-name") == "decoder self-attention · layer 0 · head 0"
    assert not page.find(".message").is_displayed()
    assert page.find(f"#{page.labelled('run')}").get_attribute("textContent") == ODD
    page.show(run="gpt", recording="step_00000100", head=0, against=f"run:{ODD}")
    assert f"B = {ODD} step 100" in page.text(".legend-line")
    page.load(page.driver.execute_script("return parent.location.hash"))
    assert f"B = {ODD} step 100" in page.text(".legend-line")


def test_another_run_can_be_chosen_when_this_one_cannot_be_shown(page: Page) -> None:
    """Guards against a page that cannot leave a damaged recording."""
    page.load(run="damaged", recording="step_00000200")
    assert "cannot be shown" in page.text(".nothing")
    page.choose("run", "gpt")
    page.wait("return document.querySelector('.frame-name').textContent.startsWith('decoder')")
    page.settle()
    assert page.text(".step-title") == "step 200"


def test_a_run_that_only_generated_has_no_steps_but_maps(page: Page) -> None:
    """Guards against a timeline, or curves, that need a training step."""
    for view in VIEWS:
        page.show(run="generated", view=view)
        assert page.text(".step-title") == "generated 1"
        assert "by the model of step 900" in page.text(".frame-detail")
    page.show(run="generated", view="story")
    assert "recorded no training steps" in page.text(".story-view")
    page.show(run="generated", view="curves", follow=True)
    page.wait("return document.querySelector('.chart-stage').textContent.includes('No measures')")


def test_one_token_is_a_text(page: Page) -> None:
    """Guards against division by the number of tokens minus one."""
    for view in VIEWS:
        for rows in ("reads", "predicts"):
            shown = {"rows": rows, "head": "mean", "merge": True, "hide": True, "token": "r0"}
            page.show(run="token", recording="step_00000100", view=view, **shown)
            named = "next token" if view == "prediction" else "decoder self-attention · layer 0 · mean of 3 heads"
            assert page.text(".frame-name").startswith(named)
            assert page.text(".message") == ""


def test_scores_are_shown_without_examples(page: Page) -> None:
    """Guards against a blank page where only gold examples were scored."""
    page.show(run="gpt", recording="step_00000100")
    page.show(run="scores", recording="step_00000100")
    assert "contains no examples" in page.text(".nothing")
    assert page.find(".scores").is_displayed()
    assert not page.find(".grid").is_displayed()
    assert not page.find(".cells").is_displayed()
    page.press(Keys.ARROW_DOWN, "]", "+", Keys.ARROW_RIGHT)
    page.show(run="gpt", recording="step_00000100")
    assert page.find(".cells").is_displayed()
    assert page.find(".grid").is_displayed()
