"""The view Ask in a browser, with several questions: late, earlier and cleared answers, and those of two runs."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from attention_maps.files import store
from attention_maps.tensorboard.runs import REMEMBERED
from attention_maps.tensorboard.worker_process import FIRST_LIMIT
from tests.attention_maps.tensorboard.browser.asked import ANSWER, STATUS, TEXT, ask, recording_of, typed
from tests.attention_maps.tensorboard.browser.conftest import Open
from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from tests.attention_maps.tensorboard.conftest import serving

UNREACHABLE = """
    const [route] = arguments;
    const real = window.fetch;
    window.fetch = (address, ...options) => (address === route ? Promise.reject(new TypeError()) : real(address, ...options));
"""  # noqa: E501
"""Script after which a route of the plugin does not answer."""


def test_a_late_answer_belongs_to_the_text_that_was_asked(runs: Page) -> None:
    """Guards against an answer above which the form shows an example that was opened meanwhile, and against the loss of
    what was typed meanwhile."""
    ask(runs, "Ken had a pen.")
    earlier = recording_of(runs)
    runs.load(run="gpt", view="ask", recording="step_00000006")
    example = runs.find(TEXT).get_attribute("value")
    assert example != "Ken had a pen."
    runs.hold("ask")
    runs.find(".ask-send").click()
    wait_for(runs, STATUS, "asking")
    runs.show(run="gpt", view="ask", recording=earlier)
    assert runs.find(TEXT).get_attribute("value") == "Ken had a pen."
    runs.release()
    wait_for(runs, STATUS, "is answered")
    runs.settle()
    assert recording_of(runs) != earlier
    assert runs.find(TEXT).get_attribute("value") == example
    runs.hold("ask")
    runs.find(".ask-send").click()
    wait_for(runs, STATUS, "asking")
    typed(runs, TEXT, "Emi runs.")
    runs.release()
    wait_for(runs, STATUS, "is answered")
    runs.settle()
    runs.show(run="gpt", view="ask", recording=earlier)
    assert runs.find(TEXT).get_attribute("value") == "Emi runs."


def test_a_second_question_is_told_to_wait(runs: Page) -> None:
    """Guards against “ask this model” without any effect while an earlier question is being answered."""
    runs.hold("ask")
    runs.find(".ask-send").click()
    wait_for(runs, STATUS, "asking")
    runs.show(run="gpt", view="prediction", recording="step_00000006", kind="decoder")
    wait_for(runs, ".parts-sum", "Sum")
    runs.click(".prediction-title .without")
    wait_for(runs, STATUS, "Another question is still being answered")
    runs.release()
    wait_for(runs, STATUS, "is answered", FIRST_LIMIT)


def test_an_answer_after_a_restart_is_not_an_earlier_one(driver: Chrome, asked_runs: Path) -> None:
    """Guards against an open page that takes an answer of a restarted TensorBoard for one of the same number that it
    has read before."""
    with serving("--logdir", asked_runs) as address:
        page = Page(driver, address)
        page.load(run="gpt", view="ask")
        ask(page, "Ken had a pen.")
        before = recording_of(page)
        assert "Kenhad" in "".join(page.texts(f"{ANSWER} .passage-text .token"))
    port = urlsplit(address).port
    assert port
    with serving("--logdir", asked_runs, port=port):
        ask(page, "Emi runs.")
        assert recording_of(page) > before
        assert "".join(page.texts(f"{ANSWER} .passage-text .token")).startswith("Emi")


def test_a_question_does_not_hide_steps_recorded_meanwhile(open_folder: Open, trained: Path, tmp_path: Path) -> None:
    """Guards against a story that ends before the newest step, which the slider offers, because a question has read
    the list of recordings."""
    run = tmp_path / "runs" / "gpt"
    shutil.copytree(trained / "runs" / "gpt", run, symlinks=True)
    page = open_folder(tmp_path / "runs")
    page.load(run="gpt", view="story")
    wait_for(page, ".story-events", "In 6 steps the loss")
    page.click("#tab-ask")
    store.save(replace(store.load(store.path(run, 6)), step=8), run)
    time.sleep(REMEMBERED + 0.5)  # the list of runs is cached for so long
    page.click(".ask-send")
    wait_for(page, STATUS, "is answered", FIRST_LIMIT)
    page.settle()
    page.click("#tab-story")
    wait_for(page, ".story-events", "In 8 steps the loss")


def test_the_answers_of_two_runs_have_their_own_texts(runs: Page) -> None:
    """Guards against the text of another run above an answer with the same number."""
    asked = {"gpt": "Ken had a pen.", "translate": "エミは走る。"}
    last = dict.fromkeys(asked, "")
    while not last["gpt"] == last["translate"] > "":
        run = min(asked, key=lambda name: last[name])
        runs.show(run=run, view="ask")
        ask(runs, asked[run])
        last[run] = recording_of(runs)
    number = last["gpt"]
    runs.show(run="gpt", view="ask", recording=number)
    runs.wait(f"return document.querySelector('{TEXT}').value === '{asked['gpt']}'")
    runs.show(run="translate", view="ask", recording=number)
    runs.wait(f"return document.querySelector('{TEXT}').value.startsWith('エミ')")


def test_an_earlier_answer_is_shown_with_what_it_was_asked_with(runs: Page) -> None:
    """Guards against a warning about heads that nobody has chosen since, only because the timeline was moved."""
    ask(runs, "Ken had a pen.")
    runs.show(run="gpt", recording=recording_of(runs), view="ask", kind="decoder", layer=0, head=1)
    runs.click(".ask-form .without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · head 1")
    runs.settle()
    runs.press(Keys.ARROW_LEFT)
    wait_for(runs, f"{ANSWER} h3", ", the whole model")
    runs.wait("return !document.querySelector('.ask-head')")
    runs.wait("return document.querySelector('.ask-stale').hidden")
    runs.press(Keys.ARROW_RIGHT)
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · head 1")
    wait_for(runs, ".ask-head", "layer 0 · head 1")
    runs.wait("return document.querySelector('.ask-stale').hidden")
    assert "removed=decoder.0.1" in runs.hash
    runs.show(run="gpt", recording=recording_of(runs), view="ask", removed="decoder.0.0")
    wait_for(runs, ".ask-stale", "(heads) is not that of this answer")


def test_questions_are_cleared(runs: Page) -> None:
    """Guards against a list that only grows, a button beyond the keyboard's reach, and an answer that stays."""
    runs.wait("return !document.querySelector('.clear').hidden")  # of other tests, or the one asked automatically
    runs.click(".clear")
    runs.wait("return document.querySelector('.clear').hidden")
    ask(runs, "Ken had a pen.")
    assert "asked (1)" in runs.text(".timeline")
    button = runs.find(".clear")
    assert button.get_property("tabIndex") == 0
    button.send_keys(Keys.ENTER)
    runs.wait("return document.querySelector('.clear').hidden")
    runs.settle()
    assert "recording=step_00000006" in runs.hash
    assert not runs.find(ANSWER).is_displayed()
    assert not runs.text(".message")


def test_questions_that_cannot_be_cleared_stay_with_the_reason(runs: Page) -> None:
    """Guards against a message that the next drawing removes, and an answer that gives way although it is kept."""
    ask(runs, "Ken had a pen.")
    recording = recording_of(runs)
    runs.driver.execute_script(UNREACHABLE, "clear")
    runs.click(".clear")
    wait_for(runs, ".message", "TensorBoard does not answer")
    time.sleep(0.5)
    assert runs.find(".message").is_displayed()
    assert recording_of(runs) == recording
    assert runs.find(".clear").is_displayed()
