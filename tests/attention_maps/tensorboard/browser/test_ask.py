"""The view Ask in a browser, with the models of two tiny runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from attention_maps.command_line.export import ExportSettings, export
from attention_maps.tensorboard.worker_process import FIRST_LIMIT
from tests.attention_maps.tensorboard.browser.asked import (
    ANSWER,
    CERTAIN,
    STATUS,
    TEXT,
    pick,
    place_of,
    pressed,
    recording_of,
    save_scaled,
    typed,
)
from tests.attention_maps.tensorboard.browser.conftest import Open
from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from training.run_folder.tokenizers import load_tokenizers

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
TARGET, OTHER, CELLS = ".ask-form textarea:nth-of-type(2)", ".ask-form div > textarea", ".ask-next td"
OUTLINED = """
    const {zIndex, outlineStyle} = getComputedStyle(document.querySelector('.ask-answer .token[aria-pressed=true]'));
    const {left} = document.querySelector('.ask-answer .token').getBoundingClientRect();
    return zIndex === '1' && outlineStyle === 'solid' && left - document.querySelector('.view').getBoundingClientRect().left > 3;
"""  # noqa: E501
"""Script that returns whether the outline of the selected word is above the colour of the next one, and is not cut."""
ASKED = """
    const request = new XMLHttpRequest();
    request.open('GET', `answer?run=${arguments[0]}&recording=${arguments[1]}`, false);
    request.send();
    return JSON.parse(request.responseText).decoding;
"""
"""Script that returns the settings by which the answer of a recording was written."""
MOST = "return [...document.querySelectorAll('.ask-effects tr:nth-of-type(2) > *')].map((cell) => cell.textContent)"
"""Script that returns the cells of the first head in the list."""
BROAD = """
    const done = arguments[arguments.length - 1];
    const found = {heads: [['decoder', 0, 0], ['decoder', 0, 1], ['decoder', 1, 0]], whole: [1, 1, 1], losses: [[9, 1.5, 1.5], [1, 1.05, 1.05], [1, 1.1, 1.1]]};
    import('/data/plugin/attention/static/views/ask/effects.js').then(({ranked}) => {
      const rows = ranked(found, 0, 3);
      done(found.heads.map((place) => rows.find((row) => row.place === place).broad));
    });
"""  # noqa: E501
"""Script that returns which of three heads are marked, without which the other words lose 0.5, 0.05 and 0.1 nats."""


def test_a_gpt_is_asked_and_its_head_removed(runs: Page) -> None:
    """Guards against a question about another text, an answer of another model, and a comparison with another text."""
    assert runs.find(TEXT).get_attribute("value"), "the text of the example is offered"
    typed(runs, TEXT, "Ken had a pen.")
    runs.find(TEXT).send_keys(Keys.CONTROL, Keys.ENTER)
    wait_for(runs, STATUS, "is answered: all views show its maps", FIRST_LIMIT)
    runs.settle()
    first = runs.text(".step-title")
    assert first.startswith("question ")
    assert "recording=asked_0000" in runs.hash
    wait_for(runs, f"{ANSWER} h3", "the whole model")
    assert len(runs.texts(CELLS)) == 5
    assert "asked (" in runs.text(".timeline")
    runs.show(run="gpt", recording=recording_of(runs), view="ask", kind="decoder", layer=0, head=1)
    runs.click(".ask-form .without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · head 1 (zero ablation)")
    runs.settle()
    assert runs.texts(".ask-head") == ["layer 0 · head 1 ×"]
    assert "removed=decoder.0.1" in runs.hash
    assert not runs.find(".ask-stale").is_displayed()
    assert runs.texts(".ask-next tr:first-of-type th")[1] == "zero ablation"
    assert "harder to predict" in runs.text(".ask-legend")
    assert is_seen(runs, f"{ANSWER} h3")
    assert [len(row.find_elements("css selector", "td")) for row in rows(runs)] == [3] * len(rows(runs))
    assert "of the whole model" in runs.text(".ask-loss")
    runs.click(".ask-compare")
    wait_for(runs, ".frame-detail", ", whole model")
    runs.show(run="gpt", recording=recording_of(runs), view="prediction", kind="decoder", layer=0, head=1)
    wait_for(runs, ".parts-sum", "Sum")
    names, values = runs.texts(".part-name"), runs.texts(".parts .bar-number")
    assert values[names.index("layer 0 · head 1")] == "0.00"
    assert "All parts add up to it: the difference" in runs.text(".parts-exact")
    runs.show(run="gpt", view="ask", recording="step_00000006")
    runs.wait("return document.querySelector('.ask-status').textContent === ''")  # which is about the answer


def test_every_head_alone_is_listed_and_the_word_stays_selected(runs: Page) -> None:
    """Guards the list of heads against effects on another word, and against a selection, a method or heads that an
    answer to another question hides."""
    runs.show(run="gpt", view="ask", recording="step_00000006", checkpoint="weights-00000004")
    typed(runs, TEXT, "Ken had a pen. He lent it to Emi.")
    typed(runs, "input[aria-label='tokens to write']", "4")
    runs.click(".ask-send")
    wait_for(runs, f"{ANSWER} h3", "the whole model")
    runs.settle()
    titles = runs.attributes(f"{ANSWER} .token", "title")
    pick(runs, max(place for place, title in enumerate(titles) if (title or "").startswith("loss 0.")))
    word = pressed(runs)
    assert runs.driver.execute_script(OUTLINED)
    runs.wait("return document.querySelectorAll('.ask-effects tr').length > 1")
    assert runs.text(".ask-effects caption").startswith(f"“{word[1]}” without one head at a time (zero ablation)")
    try:
        runs.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        runs.wait("return innerWidth <= 390 && document.scrollingElement.scrollWidth <= innerWidth")
    finally:
        runs.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    changes = [abs(float(row[2].replace("−", "-"))) for row in cells(runs, ".ask-effects tr")]
    assert changes == sorted(changes, reverse=True)
    most = runs.driver.execute_script(MOST)
    sentence = f" No head changes it more than {most[0]}: without this head, it is {most[2]} (zero ablation)."
    assert sentence in runs.text(".finding")
    assert runs.texts(".ask-effects tr:first-of-type th")[-2] == "other words, nats"
    runs.click(".ask-effects .explain")
    assert runs.text("dialog.keys .sought th") == "hurts the whole text"
    runs.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert runs.driver.execute_async_script(BROAD) == [True, False, True], "whatever happens to the word itself"
    runs.click(".ask-effects .link")
    (kind, layer, head) = (runs.find(".ask-effects [data-head]").get_attribute("data-head") or "").split(".")
    assert f"layer {layer} · head {head}" in runs.text(".ask-effects .link[aria-pressed=true]")
    assert kind == "decoder"
    runs.click(".ask-form .without")
    wait_for(runs, f"{ANSWER} h3", f"without layer {layer} · head {head} (zero ablation)")
    runs.settle()
    assert pressed(runs) == word, "the next answer shows the same word"
    actual = next(row for row in rows(runs) if "actual" in (row.get_attribute("class") or ""))
    chances = [cell.text for cell in actual.find_elements("css selector", "td")]
    listed = cells(runs, f".ask-effects [data-head='{kind}.{layer}.{head}']")[0]
    assert chances[0] == listed[1], "as in the list of heads"
    assert chances[1] in runs.text(".ask-effects caption")
    runs.driver.find_element("xpath", "//button[.='mean']").click()
    wait_for(runs, f"{ANSWER} h3", f"without layer {layer} · head {head} (mean ablation)")
    wait_for(runs, ".ask-effects caption", "(mean ablation)")
    assert not runs.find(".ask-stale").is_displayed()
    assert pressed(runs) == word
    runs.driver.find_element("xpath", "//button[.='another text']").click()
    runs.wait("return !document.querySelector('.ask-stale').hidden")
    assert not runs.find(".ask-stale .link").is_displayed(), "another text has to be typed first"
    for how in ("zero", "mean"):
        runs.driver.find_element("xpath", f"//button[.='{how}']").click()
        wait_for(runs, f"{ANSWER} h3", f"({how} ablation)")
        wait_for(runs, STATUS, "is answered")
        runs.settle()
    pick(runs, 3)
    word = pressed(runs)
    typed(runs, TEXT, "Hana and Ken had a pen. He lent it to Emi.")
    runs.click(".ask-send")
    wait_for(runs, STATUS, "is answered")
    runs.settle()
    assert pressed(runs)[1] == word[1], "in another text, the nearest word of this kind"
    runs.driver.find_element("xpath", "//button[.='zero']").click()
    wait_for(runs, f"{ANSWER} h3", "(zero ablation)")
    typed(runs, TEXT, "Ken had a pen.")
    runs.driver.find_element("xpath", "//button[.='mean']").click()
    wait_for(runs, ".ask-stale", "(what replaces their output) is not that of this answer")
    assert "stale" in (runs.find(ANSWER).get_attribute("class") or "")
    runs.click(".ask-stale .link")
    wait_for(runs, f"{ANSWER} h3", "(mean ablation)")


def cells(page: Page, selector: str) -> list[list[str]]:
    """Return the texts of the cells of the rows that match a selector and have any."""
    rows_found = page.driver.find_elements("css selector", selector)
    texts = [[cell.text for cell in row.find_elements("css selector", "td")] for row in rows_found]
    return [row for row in texts if row]


def test_a_head_takes_its_output_from_another_text(runs: Page, trained: Path) -> None:
    """Guards patching: the other text serves the chosen heads alone; another length is refused in a sentence."""
    tokenizer = load_tokenizers(trained / "runs" / "gpt")[0]
    length = len(tokenizer.encode("Ken had a pen."))
    others = (f"Ken had a {noun}." for noun in ("dog", "cat", "book", "map", "bag", "cake"))
    other = next(text for text in others if len(tokenizer.encode(text)) == length)
    typed(runs, TEXT, "Ken had a pen.")
    runs.find(TEXT).send_keys(Keys.CONTROL, Keys.ENTER)
    wait_for(runs, f"{ANSWER} h3", "the whole model")
    runs.settle()
    runs.show(run="gpt", recording=recording_of(runs), view="ask", kind="decoder", removed="decoder.0.1", how="other")
    runs.click(".tile[data-head='1']")
    typed(runs, OTHER, "Ken had a pen.")
    runs.click(".ask-send")
    wait_for(runs, f"{ANSWER} h3", "with layer 0 · head 1 from “Ken had a pen.”")
    wait_for(runs, ".ask-change", "stays at")
    assert "difference 0.00" in runs.text(".ask-loss")
    typed(runs, OTHER, other)
    runs.click(".ask-send")
    wait_for(runs, f"{ANSWER} h3", f"from “{other}”")
    wait_for(runs, STATUS, "is answered")
    runs.settle()
    assert runs.texts(".ask-next th")[:4] == ["next token", "patched", "whole model", "points"]
    typed(runs, OTHER, "Ken had a pen. He had a pen.")
    runs.click(".ask-send")
    wait_for(runs, STATUS, "only between texts of equal length")
    runs.click(".ask-head")
    wait_for(runs, ".ask-stale", "(heads) is not that of this answer")
    runs.click(".ask-form .without")
    assert "how=" not in runs.hash, "the other text belongs to the heads chosen before"
    assert not runs.find(OTHER).is_displayed()


def test_the_weights_nearest_to_the_step_shown_are_asked(open_folder: Open, trained: Path, tmp_path: Path) -> None:
    """Guards against an early step that is explained by the last model, in both views that ask, without a word."""
    shutil.copytree(trained / "runs" / "gpt", tmp_path / "runs" / "gpt", symlinks=True)
    checkpoints = tmp_path / "runs" / "gpt" / "checkpoints"
    save_scaled(checkpoints, 0, 1)
    save_scaled(checkpoints, 4, CERTAIN)
    page = open_folder(tmp_path / "runs")
    page.load(run="gpt", view="ask", recording="step_00000001")
    wait_for(page, ".kept-weights", "The model of step 0 is asked; the maps at the left are of step 1.")
    page.click(".ask-send")
    wait_for(page, f"{ANSWER} h3", "model of step 0, the whole model", FIRST_LIMIT)
    page.show(run="gpt", view="ask", recording="step_00000006")
    page.wait("return document.querySelector('.kept-weights').hidden")
    page.choose("checkpoint", "step 4")
    wait_for(page, ".kept-weights", "The model of step 4 is asked")
    assert "checkpoint=weights-00000004" in page.hash
    page.show(run="gpt", view="ask", recording="step_00000006", checkpoint="weights-00000004", removed="decoder.0.1")
    page.click(".ask-send")
    wait_for(page, f"{ANSWER} h3", "model of step 4, without layer 0 · head 1")
    page.settle()
    shares = {place: cells(page, ".ask-next tr:not(.actual)") for place in range(8) if not page.click(place_of(place))}
    assert all(row[0] != "0.0 %" or row[1] != "0.0 %" for listed in shares.values() for row in listed), shares
    assert sum(len(listed) for listed in shares.values()) < 8 * 5
    page.choose("checkpoint", "step 6 (best, last)")
    wait_for(page, ".ask-stale", "(checkpoint) is not that of this answer")
    page.click(".ask-send")
    wait_for(page, f"{ANSWER} h3", "model of step 6")
    page.settle()
    changes = [page.text(".ask-change") for place in range(8) if not page.click(place_of(place))]
    assert not [change for change in changes if "rises" in change or "falls" in change], "by less than a point"
    assert [change for change in changes if "hardly changes, from" in change], changes
    page.show(run="gpt", view="circuits", kind="decoder", layer=0, head=1, recording="step_00000001")
    wait_for(page, ".circuits-status", "layer 0 · head 1, weights of step 0")
    page.show(run="gpt", view="ask", recording="step_00000006")
    shutil.rmtree(checkpoints)
    page.click(".ask-send")
    wait_for(page, STATUS, "contains no checkpoint")


def test_an_answer_keeps_the_word_and_the_scores_but_another_run_not_the_heads(runs: Page) -> None:
    """Guards against a question that empties the list of scores and loses the selected word, and heads of one model
    that are removed from another."""
    runs.show(run="translate", view="map", kind="cross", layer=0, head=0)
    scores = runs.texts(".scores tr")
    assert scores
    selected = {"kind": "cross", "layer": 0, "head": 0, "rows": "predicts", "token": "r1"}
    runs.show(run="translate", view="map", recording=recording_of(runs), **selected)
    runs.click(".without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · cross-attention · head 0")
    runs.settle()
    assert "token=r1" in runs.hash
    assert runs.texts(".scores tr") == scores
    assert runs.text(".scores-body").startswith("of step ")
    runs.choose("run", "gpt")
    runs.wait(
        "return !document.querySelector('.ask-head')"
    )  # the list of runs changes the run once its examples are read
    assert "removed" not in runs.hash


def is_seen(page: Page, selector: str) -> bool:
    """Whether an element is inside the window."""
    script = """
        const {top, bottom} = document.querySelector(arguments[0]).getBoundingClientRect();
        return top >= 0 && bottom <= window.innerHeight;
    """
    return bool(page.driver.execute_script(script, selector))


def rows(page: Page) -> list:
    """Return the rows of the table of next tokens."""
    return page.driver.find_elements("css selector", ".ask-next tr")[1:]


def test_a_translator_translates_and_reads_a_given_translation(runs: Page) -> None:
    """Guards against a translation that is ignored, and fields of the other task."""
    runs.show(run="translate", view="ask")
    assert runs.find(TARGET).is_displayed()
    assert not runs.find("input[aria-label='tokens to write']").is_displayed()
    typed(runs, TEXT, "エミは走る。")
    typed(runs, TARGET, "")
    runs.click(".ask-send")
    wait_for(runs, f"{ANSWER} h3", "the whole model")
    assert "The model translates" in runs.text(".ask-written")
    typed(runs, TARGET, "Emi runs.")
    runs.click(".ask-send")
    runs.wait("return !document.querySelector('.ask-written').textContent.includes('translates')")
    runs.settle()
    tokens = "".join(runs.texts(f"{ANSWER} .token"))
    assert tokens.replace("␣", "") == "Emiruns.</s>", "the tokens that are predicted"
    assert "as the decoder predicts it; by cross-attention it reads the source from the encoder" in runs.text(ANSWER)
    heads = ["layer 0 · encoder · head 0", "layer 0 · decoder · head 1", "layer 0 · cross-attention · all heads"]
    runs.show(run="translate", view="ask", recording=recording_of(runs), removed="encoder.0.0,decoder.0.1,cross.0.*")
    assert runs.texts(".ask-head") == [f"{name} ×" for name in heads]
    runs.click(".ask-send")
    wait_for(runs, f"{ANSWER} h3", f"without {', '.join(heads)} (zero ablation)")
    runs.show(run="translate", view="prediction", recording=recording_of(runs), kind="cross")
    wait_for(runs, ".parts-sum", "Sum")
    assert {"layer 0 · decoder · head 0", "layer 0 · cross-attention · head 0"} < set(runs.texts(".part-name"))


FIELDS = "input[aria-label='tokens to write']", ".ask-form .fold-button", ".ask-form .fold-body .field"


def field(page: Page, label: str) -> str:
    """Return the selector of a field of the fold."""
    return f"#{page.labelled(label)}"


def shown(page: Page) -> list[str]:
    """Return the labels of the fields of the fold that are displayed."""
    fields = page.driver.find_elements("css selector", FIELDS[2])
    return [one.text.split("\n")[0] for one in fields if one.is_displayed()]


def test_a_text_is_continued_as_it_is_chosen(runs: Page) -> None:
    """Guards against settings that are lost on the way, in a link or in an earlier answer, and fields that have no
    effect."""
    runs.show(run="gpt", view="ask", recording="step_00000006")
    count, button, _ = FIELDS
    typed(runs, TEXT, "Ken")
    typed(runs, count, "12")
    assert (runs.text(button), shown(runs)) == ("decoding: greedy", [])
    runs.click(button)
    assert shown(runs) == ["temperature"]
    typed(runs, field(runs, "temperature"), "2" + Keys.TAB)
    assert shown(runs) == ["temperature", "top-p", "top-k", "seed"]
    typed(runs, field(runs, "top-k"), "30" + Keys.TAB)
    runs.settle()
    typed(runs, field(runs, "seed"), "4")
    runs.find(field(runs, "seed")).send_keys(Keys.CONTROL, Keys.ENTER)  # the field is not left before
    wait_for(runs, ".ask-written", "The model continues (temperature 2, top-k 30, seed 4): ", FIRST_LIMIT)
    runs.settle()
    link, first = runs.hash, runs.text(".ask-written")
    assert {"p.attention.temperature=2", "p.attention.top_k=30", "p.attention.seed=4"} <= set(link.split("&"))
    assert not runs.find(".ask-stale").is_displayed()
    typed(runs, field(runs, "seed"), "5" + Keys.TAB)
    wait_for(runs, ".ask-stale", "(decoding) is not that of this answer")
    runs.click(".ask-send")
    wait_for(runs, ".ask-written", "seed 5")
    runs.settle()
    assert runs.text(".ask-written q") not in first
    runs.load(link)
    wait_for(runs, ".ask-written", "seed 4")
    assert runs.text(button) == "decoding: temperature 2, top-k 30, seed 4"
    typed(runs, TEXT, "Ken")  # instead of the text with its continuation
    typed(runs, count, "12")
    runs.click(".ask-send")
    runs.wait(f"return !parent.location.hash.includes({recording_in(link)!r})")
    runs.settle()
    assert runs.text(".ask-written") == first, "the same seed writes the same text"
    runs.click(button)
    typed(runs, field(runs, "temperature"), "0" + Keys.TAB)
    typed(runs, count, "5")
    runs.click(".ask-send")
    wait_for(runs, ".ask-written", "The model continues (greedy): ")
    runs.settle()
    previous = int(recording_of(runs)[-5:]) - 2
    runs.show(run="gpt", view="ask", recording=f"asked_{previous:05d}")
    runs.wait("return parent.location.hash.includes('temperature=2')")  # the choice of the earlier answer
    typed(runs, field(runs, "temperature"), "2000")
    runs.click(".ask-send")
    wait_for(runs, STATUS, "temperature=2000: must be 0, or from 0.001 to 1000")


def recording_in(link: str) -> str:
    return link.partition("p.attention.recording=")[2].partition("&")[0]


def test_a_sentence_is_translated_by_the_chosen_beam(runs: Page) -> None:
    """Guards against fields of a GPT, and a beam size that is not asked for."""
    runs.show(run="translate", view="ask")
    typed(runs, TEXT, "エミは走る。")
    typed(runs, TARGET, "")
    button = FIELDS[1]
    assert runs.text(button) == "decoding: beam of 4"
    runs.click(button)
    assert shown(runs) == ["beam size"]
    assert runs.text(".ask-form .fold-body button[aria-pressed=true]") == "4"
    runs.click(".ask-form .fold-body button[value='1']")
    assert "beam_size=1" in runs.hash
    runs.click(".ask-send")
    wait_for(runs, ".ask-written", "The model translates (greedy): ", FIRST_LIMIT)
    runs.settle()
    assert runs.driver.execute_script(ASKED, "translate", recording_of(runs)) == {"beam_size": 1}
    assert not runs.find(".ask-writing").is_displayed()


def test_refused_questions_and_exported_pages_say_why(runs: Page, trained: Path, tmp_path: Path) -> None:
    """Guards against silence after a question that was refused, and a form in a page without a server."""
    typed(runs, TEXT, " ")
    runs.click(".ask-send")
    wait_for(runs, STATUS, "empty")
    page = tmp_path / "page.html"
    export(str(trained / "runs" / "gpt"), ExportSettings(to=str(page)), [])
    runs.open()
    runs.driver.get(f"file://{page}#attention&p.attention.view=ask")
    runs.wait("return document.querySelector('.ask-view')?.textContent.includes('need a running TensorBoard')")
    assert not runs.find(".ask-form").is_displayed()
    assert not runs.find(".without").is_displayed()
    runs.driver.get(f"file://{page}#attention&p.attention.view=prediction")
    wait_for(runs, ".parts-sum", "Sum of the bars")
    total, logit = re.findall(r"[+-]?\d+\.\d+", runs.text(".parts-sum").replace("−", "-"))
    assert float(total) == pytest.approx(float(logit), abs=0.1), "up to the rounding of bfloat16, in which it may train"
    assert not runs.find(".prediction-title .without").is_displayed()
