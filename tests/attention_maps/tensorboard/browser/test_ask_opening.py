"""The first answer of a run, with which the view Ask opens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attention_maps.tensorboard.worker_process import FIRST_LIMIT
from tests.attention_maps.tensorboard.browser.asked import ANSWER, STATUS, TEXT, mark_answer, pressed, typed
from tests.attention_maps.tensorboard.browser.conftest import Open
from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from tests.attention_maps.tensorboard.browser.test_layout import ROOM, resized

NOTE = "Asked automatically, because nothing had been asked of this run yet: "
OPTIONS = "return [...document.querySelectorAll('.timeline select option')].map(({textContent}) => textContent)"

QUICK = """
    const done = arguments[arguments.length - 1];
    import('/data/plugin/attention/static/views/ask/effects.js').then(({Effects}) => {
      const isQuick = (layers, length) => {
        const context = {meta: () => ({kinds: {decoder: {layers, heads: 8}}}), fitted: () => ({sample: 0})};
        return new Effects(context).isQuick({tokens: Array(length)});
      };
      done([isQuick(8, 15), isQuick(8, 16), isQuick(9, 1)]);
    });
"""
"""Script that returns whether the effects of 64, 64 and 72 heads on texts of 15, 16 and one token are measured without
a click."""


@pytest.fixture
def fresh(open_folder: Open, trained: Path, tmp_path: Path) -> Page:
    """Return the page of a TensorBoard that nobody has asked anything yet."""
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    mark_answer(tmp_path / "runs" / "gpt")
    return open_folder(tmp_path / "runs")


def opened(page: Page, hash: str) -> None:
    """Open the view Ask, and wait until it has its first answer."""
    page.load(hash)
    wait_for(page, STATUS, NOTE, FIRST_LIMIT)
    page.settle()


def test_ask_opens_with_an_answer_about_the_example_shown(fresh: Page) -> None:
    """Guards against an empty view, an answer to another text or word, and other views that leave the recorded step."""
    opened(fresh, "#attention&p.attention.run=gpt&p.attention.view=ask")
    assert fresh.text(f"{ANSWER} h3") == "question 1: model of step 6, the whole model"
    offered = fresh.find(TEXT).get_attribute("value") or ""
    shown = "".join(fresh.texts(f"{ANSWER} .token"))
    assert shown[:20] in offered.replace(" ", ""), "the text in the form"
    assert "the answer to the question in the text" in fresh.text(".finding")
    assert pressed(fresh)[1] == "Emi"
    assert fresh.text(".step-title") == "step 7"
    assert "asked_" not in fresh.hash
    assert fresh.driver.execute_script(OPTIONS) == ["steps", "asked (1)"]
    wait_for(fresh, ".ask-effects caption", "“Emi” without one head at a time")
    quick = fresh.driver.execute_async_script(QUICK)
    assert quick == [True, False, False], "no question of many passes that nobody has asked"
    fresh.click(f"{STATUS} .link")
    assert fresh.text(".step-title") == "question 1"
    assert fresh.find(ANSWER).is_displayed()


def test_a_translation_opens_at_the_word_with_which_the_tab_opens(fresh: Page) -> None:
    """Guards against the word after it, which its row predicts if it is the row that reads the word."""
    fresh.load("#attention&p.attention.run=translate&p.attention.view=sentence")
    fresh.settle()
    word = fresh.text(".sentence-panel h3")
    opened(fresh, f"{fresh.hash.replace('view=sentence', 'view=ask')}")
    assert fresh.text(".ask-opened") == f"Opened at “{word}”, the word with which the tab opens."
    assert pressed(fresh)[1] == word


def test_a_run_is_asked_by_itself_only_once(fresh: Page) -> None:
    """Guards against a question at every visit, after the questions were cleared, or beside a question of the user."""
    opened(fresh, "#attention&p.attention.run=gpt&p.attention.view=ask")
    fresh.click("#tab-map")
    fresh.click("#tab-ask")
    fresh.load("#attention&p.attention.run=gpt&p.attention.view=ask&p.attention.sample=0")
    wait_for(fresh, ".finding", "Ask the model of a kept checkpoint")
    assert not fresh.find(ANSWER).is_displayed()
    fresh.click(".clear")
    fresh.wait("return document.querySelector('.clear').hidden")
    fresh.settle()
    assert NOTE not in fresh.text(STATUS)
    fresh.click("#tab-map")
    fresh.click("#tab-ask")
    assert fresh.driver.execute_script(OPTIONS) in ([], ["steps"])
    opened(fresh, "#attention&p.attention.run=translate&p.attention.view=ask")
    for page in resized(fresh, 1280, 800):
        _, off, height = page.driver.execute_script(ROOM)
        assert off < 3, "one line, also with questions"
        assert height < 45


def test_what_the_user_asks_meanwhile_is_answered_instead(fresh: Page) -> None:
    """Guards against a first answer that replaces the one to the user's own question, and a form that is locked."""
    fresh.load("#attention&p.attention.run=gpt&p.attention.view=map")
    fresh.hold("ask")
    fresh.click("#tab-ask")
    wait_for(fresh, STATUS, "asking about the example shown, because nothing has been asked of this run yet")
    typed(fresh, TEXT, "Ken had a pen.")
    fresh.find(".ask-send").click()
    wait_for(fresh, STATUS, "asking… (the first")
    fresh.release()
    wait_for(fresh, STATUS, "is answered: all views show its maps", FIRST_LIMIT)
    fresh.settle()
    assert "".join(fresh.texts(f"{ANSWER} .token")).startswith("Kenhad")


def test_a_model_that_cannot_be_asked_is_not(fresh: Page, tmp_path: Path) -> None:
    """Guards against an error message of a question that nobody has asked, where a sentence says why there is none."""
    shutil.rmtree(tmp_path / "runs" / "gpt" / "checkpoints")
    fresh.load("#attention&p.attention.run=gpt&p.attention.view=ask")
    wait_for(fresh, STATUS, "This run has no checkpoint, so its model cannot be asked.")
    assert not fresh.find(ANSWER).is_displayed()
    fresh.load("#attention&p.attention.run=translate&p.attention.view=ask&p.attention.removed=cross.0.1")
    wait_for(fresh, ".ask-head", "head 1")
    fresh.settle()
    assert not fresh.text(STATUS), "the heads that a link names are asked about on request"
