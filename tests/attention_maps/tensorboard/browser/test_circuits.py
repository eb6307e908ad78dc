"""The view Circuits in a browser, with the weights of two tiny runs."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.page import Page, wait_for

STATUS, TITLES, PAIRS = ".circuits-status", ".circuits-view h3", ".circuit-pairs tr"
TEXTS = """
    const done = arguments[arguments.length - 1];
    const pairs = [["she", "▁her", 2], ["▁she", "▁her", 1.5], ["▁Emi", "▁she", 1]];
    import("/data/plugin/attention/static/views/circuits/circuits.js").then(({textsOf}) => {
      const textOf = textsOf(pairs);
      done(["she", "▁she", "▁her", "▁Emi"].map(textOf));
    });
"""
"""Script that returns how the pieces of some pairs are listed."""


def test_the_weights_of_a_head_are_read(runs: Page) -> None:
    """Guards against circuits of another head, a filter without effect, and text that is taken for weights."""
    runs.show(run="gpt", view="circuits", kind="decoder", layer=0, head=1)
    wait_for(runs, STATUS, "layer 0 · head 1, weights of step")
    assert runs.texts(TITLES)[0].startswith("Attends (QK)")
    assert "Copying score" in runs.text(".circuits-copying")
    assert len(runs.texts(PAIRS)) == 50
    runs.show(run="gpt", view="circuits", kind="decoder", layer=0, head="mean")
    wait_for(runs, STATUS, "Choose one head")
    runs.show(run="gpt", view="circuits", kind="decoder", layer=0, head=0)
    wait_for(runs, STATUS, "layer 0 · head 0, weights of step")
    runs.click(".circuit-pairs button:not([disabled])")
    wait_for(runs, ".circuit-lists", "the first token is")
    assert "piece=" in runs.hash
    field = runs.find("input[type=search][aria-label^='only pairs']")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("qqqqqq", Keys.ENTER)
    wait_for(runs, STATUS, "no token of the vocabulary begins with")


def test_cross_attention_links_the_two_languages(runs: Page) -> None:
    """Guards against exchanged sides in the titles, and a copying score where rows and columns differ."""
    runs.show(run="translate", view="circuits", kind="cross", layer=0, head=0, piece="")
    wait_for(runs, STATUS, "layer 0 · cross-attention · head 0, weights of step")
    assert "target token → source token" in runs.texts(TITLES)[0]
    assert not runs.find(".circuits-copying").is_displayed()


def test_a_late_answer_does_not_replace_what_is_said_of_the_next_head(runs: Page) -> None:
    """Guards against the circuits of the head before, under a selection that has none."""
    runs.show(run="gpt", view="circuits", kind="decoder", layer=0, head="mean")
    runs.hold("circuits")
    runs.show(run="gpt", view="circuits", kind="decoder", layer=0, head=1, distance=5)
    wait_for(runs, STATUS, "asking")
    runs.show(run="gpt", view="circuits", kind="decoder", layer=0, head="mean")
    wait_for(runs, STATUS, "Choose one head")
    runs.release()
    assert runs.text(STATUS).startswith("Choose one head")
    assert not runs.find(TITLES).is_displayed()


def test_the_distance_shown_is_that_of_the_answer(runs: Page) -> None:
    """Guards against a negative distance, left from the encoder, in the title of a decoder, which cannot look ahead."""
    runs.show(run="translate", view="circuits", kind="encoder", layer=0, head=0, distance=-2)
    wait_for(runs, TITLES, "at a distance of -2")
    runs.show(run="translate", view="circuits", kind="decoder", layer=0, head=0, distance=-2)
    wait_for(runs, STATUS, "layer 0 · head 0, weights of step")
    assert runs.texts(TITLES)[0].endswith("at a distance of 0")
    assert runs.find("input[aria-label='distance']").get_attribute("value") == "0"


def test_a_word_with_and_without_a_space_is_listed_as_two(runs: Page) -> None:
    """Guards against a list in which the same pair of words seems to stand twice."""
    assert runs.driver.execute_async_script(TEXTS) == ["she", "␣she", "her", "Emi"]
