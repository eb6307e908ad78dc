"""How other views lead to the view Ask, and at which word its answer opens."""

from __future__ import annotations

from attention_maps.tensorboard.worker_process import FIRST_LIMIT
from tests.attention_maps.tensorboard.browser.asked import (
    ANSWER,
    MARKED,
    PRONOUN,
    REPLY,
    TEXT,
    ask,
    pick,
    pressed,
    recording_of,
    typed,
)
from tests.attention_maps.tensorboard.browser.page import Page, wait_for

ANSWERS = """
    const done = arguments[arguments.length - 1];
    const textOf = (pieces) => ({
      antecedents: {side: 'reads', pairs: [[5, 6, 1, 2]]},
      reads: {pieces},
      predicts: {pieces: pieces.slice(1)},
    });
    import('/data/plugin/attention/static/views/pair/gold_pairs.js').then(({answerOf}) => {
      const text = (sign) => textOf(['</s>', '▁Emi', '▁was', '▁kind', sign, '▁Emi', '▁came']);
      done([answerOf(text('?')), answerOf(text('.'))]);
    });
"""
"""Script that returns the answer in a text with a question, and in one whose gold label only repeats a name."""


def test_a_removed_head_is_marked_in_pair(runs: Page) -> None:
    """Guards against a head that is said to link two words most, although its output is removed, and other words than
    before the question; the recorded steps have the whole model's maps."""
    runs.show(run="gpt", view="pair", kind="decoder", layer=0, head=1, recording="step_00000006")
    wait_for(runs, ".pair-view h3", " at step 6: most by ")
    words = runs.text(".pair-view h3").partition(" (all mentions) at step ")[0]  # of a question, mentions are not known
    runs.click(".without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · head 1")
    runs.settle()
    runs.click("#tab-pair")
    wait_for(runs, ".pair-view h3", ", without layer 0 · head 1: most by layer ")
    assert "by layer 0 · head 1" not in runs.text(".pair-view h3")
    assert runs.text(".pair-view h3").startswith(f"{words} at question ")
    assert "This is the pair shown before the question." in runs.text(".finding")
    marked = runs.driver.find_elements("css selector", ".pair-heads .replaced")
    assert [row.get_attribute("data-head") for row in marked] == ["1"]
    assert marked[0].find_element("css selector", ".pair-label").text.startswith("removed")
    assert runs.find(".pair-heads li:last-child").get_attribute("class") == "replaced"
    runs.show(run="gpt", view="pair", kind="decoder", layer=0, head=1, recording="step_00000006", removed="decoder.0.1")
    wait_for(runs, ".pair-view h3", "at step 6: most by")
    assert runs.driver.find_elements("css selector", ".pair-heads .replaced") == []


def test_a_head_of_another_view_is_removed_at_once(runs: Page) -> None:
    """Guards against a button that only changes the view, removes another head, or asks about a text typed before."""
    runs.show(run="translate", view="ask")
    offered = runs.find(TEXT).get_attribute("value")
    typed(runs, TEXT, "エミは走る。")
    runs.show(run="translate", view="map", kind="cross", layer=0, head=1)
    looks = "const {textContent, title} = document.querySelector(arguments[0]); return [textContent, title]"
    look = runs.driver.execute_script(looks, ".stage-title .without")
    runs.click(".without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · cross-attention · head 1")
    assert look == runs.driver.execute_script(looks, ".ask-form .without"), "one button, in all views"
    assert not runs.find(".stage-title .without").is_displayed()
    assert runs.find(".tabs [aria-selected=true]").text == "Ask"
    assert runs.find(TEXT).get_attribute("value") == offered
    runs.click(".ask-head")
    wait_for(runs, f"{ANSWER} h3", "the whole model")
    assert runs.texts(".ask-head") == []


def test_the_story_leads_to_the_answer_without_the_head_that_it_names(runs: Page) -> None:
    """Guards against a link that asks about another head, or opens the answer at another word."""
    runs.show(run="gpt", view="story", recording=f"step_{MARKED:08d}", kind="decoder", layer=0, head="mean")
    wait_for(runs, ".story-example", "without it?")
    runs.settle()
    named = runs.text(".story-example").partition(" most by ")[2][: len("layer 0 · head 0")]
    runs.click(".story-example .link:last-child")
    wait_for(runs, f"{ANSWER} h3", f"without {named} (zero ablation)")
    wait_for(runs, ".ask-opened", "Opened at “Emi”, the answer")
    assert runs.texts(".ask-head") == [f"{named} ×"]


def test_an_answer_opens_at_what_the_gold_labels_call_the_answer(runs: Page) -> None:
    """Guards against an answer about the word after a pronoun, where the question is what the pronoun stands for, and
    against that answer where another word was chosen."""
    place = {"run": "gpt", "recording": f"step_{MARKED:08d}", "kind": "decoder", "layer": 0, "head": 1}
    runs.show(**place, view="map", token=f"r{PRONOUN}")
    runs.click(".stage-title .without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · head 1", FIRST_LIMIT)
    runs.settle()
    assert pressed(runs)[0] == REPLY - 1
    assert "the answer to the question in the text" in runs.text(".ask-opened")
    pick(runs, 0)
    assert not runs.text(".ask-opened")
    runs.show(**place, view="map", token=f"r{PRONOUN + 1}")
    runs.click(".stage-title .without")
    wait_for(runs, ".ask-opened", "predicts after the selected word")
    runs.settle()
    assert pressed(runs)[0] == PRONOUN + 1


def test_a_repeated_noun_is_the_answer_only_after_a_question(runs: Page) -> None:
    """Guards against a text without a question that is said to have an answer."""
    assert runs.driver.execute_async_script(ANSWERS) == [{"position": 4, "piece": "▁Emi"}, None]


def test_the_reason_for_a_word_belongs_to_one_text(runs: Page) -> None:
    """Guards against the answer of another text that is called that of the text shown."""
    ask(runs, "Ken had a pen. Emi had a pen.")
    other = recording_of(runs)
    place = {"run": "gpt", "kind": "decoder", "layer": 0, "head": 1}
    runs.show(**place, recording=f"step_{MARKED:08d}", view="map", token=f"r{PRONOUN}")
    runs.click(".stage-title .without")
    wait_for(runs, ".ask-opened", "the answer to the question in the text")
    runs.settle()
    runs.show(**place, recording=other, view="ask", token=f"r{PRONOUN}")
    wait_for(runs, f"{ANSWER} h3", "the whole model")
    runs.settle()
    assert pressed(runs)[1] == "Emi", "the same word, where there is one"
    assert not runs.text(".ask-opened")


def test_a_word_of_the_source_is_not_one_that_is_predicted(runs: Page) -> None:
    """Guards against an answer that opens at the word with the number of the selected word of the source."""
    runs.show(run="translate", view="map", kind="encoder", layer=0, head=0, token="r2")
    runs.click(".stage-title .without")
    wait_for(runs, f"{ANSWER} h3", "without layer 0 · encoder · head 0", FIRST_LIMIT)
    runs.settle()
    assert "token=r2" in runs.hash
    assert not runs.text(".ask-opened")


def test_prediction_leads_to_the_model(runs: Page) -> None:
    """Guards against a question about another step, text or word than the one explained."""
    place = {"run": "gpt", "recording": f"step_{MARKED:08d}", "kind": "decoder", "removed": "decoder.0.1"}
    runs.show(**place, view="prediction")
    wait_for(runs, ".parts-sum", "Sum")
    word = runs.text(".prediction-view .token[aria-pressed=true]")
    runs.click(".prediction-title .without")
    wait_for(runs, f"{ANSWER} h3", "model of step 6, the whole model", FIRST_LIMIT)
    runs.settle()
    assert pressed(runs) == (REPLY - 1, word), "by default the answer, in both views"
    assert "the answer to the question in the text" in runs.text(".ask-opened")
    runs.show(**place, view="prediction", token="r0")
    wait_for(runs, ".parts-sum", "Sum")
    runs.click(f".prediction-view .token[data-token=r{PRONOUN}]")
    runs.click(".prediction-title .without")
    wait_for(runs, ".ask-opened", "shown in Prediction")
    runs.settle()
    assert pressed(runs)[0] == PRONOUN, "a word that was clicked there"
