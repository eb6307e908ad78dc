"""The finding with which the views open: its word, its head, its sentence, and what is named instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from attention_maps.command_line.export import ExportSettings, export
from attention_maps.files import store
from attention_maps.record.recording import Recording
from tests.attention_maps.tensorboard.browser import known
from tests.attention_maps.tensorboard.browser.page import READY, Page, token, wait_for

SCORED = "layer 0 · head 1, the head that finds antecedents best (62.5 % of 288 pronouns)"
NAMES = """
    window.titles = [];
    const watch = () => {
      const title = document.querySelector('.frame-name');
      if (!title) return setTimeout(watch, 1);
      const note = () => title.textContent && title.textContent !== titles.at(-1) && titles.push(title.textContent);
      new MutationObserver(note).observe(title, {childList: true});
    };
    watch();
"""
"""Script that lists every title of the page, from its first one on."""
TENSORS = """
    return performance.getEntriesByType('resource').map(({name}) => new URL(name)).filter(({pathname}) => pathname.endsWith('/tensor'))
      .map(({searchParams}) => `${searchParams.get('recording')} ${searchParams.get('kind') ?? ''} ${searchParams.get('layer') ?? ''} ${searchParams.get('what')}`);
"""  # noqa: E501
"""Script that returns the tensors that the page has requested."""


def opened(page: Page, **state: Any) -> Page:
    """Load the tab with a link that names nothing but this."""
    names = "".join(f"&p.attention.{key}={value}" for key, value in state.items())
    page.load(f"#attention{names}")
    return page


def sentence(page: Page) -> str:
    """Return the sentence above the view, without the link beside it."""
    text: str = page.driver.execute_script("return document.querySelector('.finding > span').textContent")
    return text


def test_without_scores_the_last_pronoun_chooses_the_head_that_attends_to_its_antecedent(views: Page) -> None:
    """Guards against the first pronoun, a mean over heads, the row in which the head attends less, and nothing
    selected."""
    opened(views, run="gpt", view="sentence")
    assert sentence(views) == (
        "“She” (row 5, which predicts it), the last pronoun, attends more to its antecedent “Kate” (33.3 %) than to "
        "any other noun in layer 0 · head 0, the head that attends most to it (33.3 %)."
    )
    assert views.text(".frame-name") == "decoder self-attention · layer 0 · head 0"
    assert views.text(".token[aria-pressed=true] .token-text") == "She"
    assert views.hash == "#attention&p.attention.run=gpt&p.attention.recording=step_00000100&p.attention.view=sentence"


def test_scores_choose_the_head_and_the_row(views: Page) -> None:
    """Guards against the head of the largest weight in this one text (head 0) where one is scored best on many, and
    against the other row of the pronoun than the scored one."""
    opened(views, run="history", view="map")
    start = "“She” (row 6, which reads it), the last pronoun, attends alike to “Kate” and “pen”"
    assert sentence(views).startswith(start)
    assert sentence(views).endswith(f" in {SCORED}.")
    assert views.text(".frame-name").endswith("layer 0 · head 1")
    assert views.text(".readout").startswith("“She” attends to “She” 1")


def test_scores_of_an_earlier_evaluation_hold(views: Page) -> None:
    """Guards against another head at every recording between two evaluations, and a score that is said to be of a step
    without one."""
    opened(views, run="evaluated", view="map")
    assert views.text(".step-title") == "step 50"
    best = "layer 0 · head 1, the head that finds antecedents best (80.0 % of 288 pronouns at step 40)."
    assert sentence(views).endswith(best)


def test_a_translation_opens_with_the_head_of_the_lowest_alignment_error(views: Page) -> None:
    """Guards against the head with the largest weights: head 1 is diagonal, all of its weights are 1."""
    opened(views, run="translation", view="alignment")
    assert sentence(views) == (
        "6 links of this text, which have an alignment error of 33.3 %, from layer 0 · head 0, the head whose links of "
        "this text have the lowest error (33.3 %)."
    )
    assert views.text(".error-rate") == "33.3 %"
    views.click("#tab-sentence")
    start = "“エミは” (row 0, which predicts it) attends most to its translation “Emi” (75.0 %)"
    assert sentence(views).startswith(start)


def test_without_gold_labels_the_word_is_the_one_whose_prediction_changes_most(views: Page) -> None:
    """Guards against a full stop, and the head that adds most to other words."""
    opened(views, run="changed", view="sentence")
    assert sentence(views) == (
        "“smiled” (row 6, which predicts it), the word whose prediction changes most from the first layer to the last "
        "(5.0 % to 95.1 %), attends most to “She” (100.0 %) in layer 0 · head 1, the head that adds most to its logit "
        "(+2.00)."
    )
    views.click("#tab-prediction")
    wait_for(views, ".prediction-view h3", "What predicts “smiled” after “She”")
    wait_for(views, ".finding", "Of all heads, layer 0 · head 1 adds most to its logit (+2.00 of +3.25).")


def test_maps_alone_open_with_the_largest_weight_between_words_that_are_not_neighbours(views: Page) -> None:
    """Guards against a head that looks at the token itself, the one before or the first one; such weights are large in
    every model."""
    opened(views, run="probe", view="map")
    (sample,) = known.probe().samples
    best = max(
        (float(weights[head, row, column]), layer, head, row, column)
        for (_, layer), weights in sample.weights.items()
        for head, row, column in zip(*weights.nonzero(), strict=True)
        if column and row - column > 1 and {sample.reads.pieces[row], sample.reads.pieces[column]}.isdisjoint({"."})
    )
    weight, layer, head, row, column = best
    word, linked = (sample.reads.pieces[at].strip("▁") for at in (row, column))
    assert sentence(views) == (
        f"“{word}” (row {row}, which reads it) attends most to “{linked}” ({100 * weight:.1f} %) in layer {layer} · "
        f"head {head}, the head with the largest weight between two words ({100 * weight:.1f} %)."
    )


def test_a_link_shows_what_it_names(views: Page) -> None:
    """Guards against a finding that replaces the head, the word or nothing that a link names."""
    opened(views, run="history", view="map", head=0, layer=0)
    assert views.text(".frame-name").endswith("layer 0 · head 0")
    assert sentence(views).startswith("“She” (row 6, which reads it), the last pronoun, attends more to its antecedent")
    opened(views, run="history", view="map", head="mean")
    assert views.text(".frame-name").endswith("layer 0 · mean of 2 heads")
    opened(views, run="history", view="map", token="r3")
    assert views.text(".frame-name").endswith("layer 0 · head 1")
    assert sentence(views).startswith("“her” (row 3, which reads it) ")
    opened(views, run="gpt", view="map", token="r3")
    assert sentence(views).startswith("“her” (row 3, which reads it) "), "rows as usual, whatever those of the finding"
    opened(views, run="history", view="map", token="")
    assert sentence(views) == f"This is {SCORED}. Click a word to see what it attends to."


def test_what_the_user_chooses_stays(views: Page) -> None:
    """Guards against a head or a word that the finding takes back at another step or in another view, and a click whose
    row is that of another word because rows are labelled anew."""
    opened(views, run="gpt", view="sentence")
    views.click(token("r2"))
    assert {"p.attention.token=r2", "p.attention.rows=predicts"} <= {*views.hash.split("&")}
    assert views.text(".token[aria-pressed=true] .token-text") == "her", "rows stay labelled by what they predict"
    opened(views, run="history", view="map")
    views.press(Keys.HOME)
    assert views.text(".frame-name").endswith("layer 0 · head 1"), "that of the newest step"
    assert sentence(views).endswith(f"{SCORED.removesuffix(')')} at step 9).")
    opened(views, run="history", view="map", recording="step_00000000")
    assert sentence(views).endswith(f"{SCORED.removesuffix(')')} at step 9)."), "also if it is opened at another step"
    views.press("[")
    assert {"p.attention.layer=0", "p.attention.head=0"} <= {*views.hash.split("&")}
    for view in ("sentence", "curves", "map"):
        views.click(f"#tab-{view}")
        assert views.text(".frame-name").endswith("layer 0 · head 0")
    views.press(Keys.END)
    assert views.text(".frame-name").endswith("layer 0 · head 0")
    assert "which finds 25.0 % of the antecedents (best: layer 0 · head 1, 62.5 %)" in sentence(views)
    views.click(".finding .link")
    assert views.text(".frame-name").endswith("layer 0 · head 1")
    assert not views.find(".finding .link").is_displayed()


def test_another_kind_or_text_has_its_own_finding(views: Page) -> None:
    """Guards against the number of a head of one kind of attention for another one, and a word of another text."""
    opened(views, run="translation", view="map")
    views.click(".bar button[value=encoder]")
    assert "encoder self-attention · layer 0 · head 0" in views.text(".frame-name")
    assert sentence(views).startswith("“Emi” (row 0) attends most to ")
    opened(views, run="gpt", view="map")
    views.find(f"#{views.labelled('example')} option:nth-child(3)").click()
    views.settle()
    assert sentence(views) == (
        "“She” (row 6, which reads it), the last pronoun, attends most to its antecedent “Kate” (25.0 %) in layer 0 · "
        "head 0, the head that attends most to it (25.0 %)."
    ), "without the other mentions of Kate, the other row of the pronoun attends more to her"


@pytest.mark.parametrize("run", ["history", "translation", "changed"])
def test_every_view_opens_with_a_sentence(views: Page, run: str) -> None:
    """Guards against a view that opens without a word about what it shows; what has no data says so itself."""
    opened(views, run=run)
    silent = {"history": {"ask"}, "translation": {"prediction", "ask", "curves"}, "changed": {"ask", "curves"}}[run]
    for tab in [name for name in views.attributes("[role=tab]", "id") if name]:
        if not views.find(f"#{tab}").is_displayed():
            continue
        views.click(f"#{tab}")
        name = tab.removeprefix("tab-")
        if name in silent - {"ask"}:
            assert sentence(views) == "", name
            assert len(views.text("#view")) > 30, name
        else:
            views.wait("return document.querySelector('.finding > span').textContent.length > 40")


def test_pair_and_curves_follow_the_finding(views: Page) -> None:
    """Guards against other words in Pair, and a measure that says nothing about why the head was chosen."""
    opened(views, run="history", view="pair")
    wait_for(views, ".pair-view h3", "From “She” to “Kate” (all mentions)")
    assert sentence(views) == (
        "All heads, ranked by their attention from “She” to “Kate”. These are the last pronoun and its antecedent. "
        "Click other words."
    )
    opened(views, run="changed", view="pair")
    wait_for(views, ".pair-view h3", "From “smiled” to “She”")
    opened(views, run="evaluated", view="curves")
    wait_for(views, ".finding", "The measure “pronouns resolved” of layer 0 · head 1")
    course = ": 70.0 % at step 30, 80.0 % at step 40. Without a model, the rule “last subject” reaches 75.0 %."
    assert sentence(views).endswith(course)
    assert views.text(f"#{views.labelled('measure')} option:checked") == "pronouns resolved"


def test_no_other_head_is_drawn_first(views: Page) -> None:
    """Guards against a page that draws its defaults and then jumps to the finding."""
    script = views.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NAMES})
    try:
        opened(views, run="history", view="map")
        assert views.driver.execute_script("return titles") == ["decoder self-attention · layer 0 · head 1"]
    finally:
        views.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_the_finding_costs_no_request_that_the_page_would_not_make(views: Page) -> None:
    """Guards against an opening that becomes slower: the maps of all heads are drawn anyway, gold scores need no
    contributions to logits."""
    opened(views, run="history", view="map", options="true")
    requested = views.driver.execute_script(TENSORS)
    assert len(requested) == len(set(requested)), "nothing is read twice"
    assert [name for name in requested if "attribution" in name] == []
    opened(views, run="changed", view="map")
    assert [name for name in views.driver.execute_script(TENSORS) if "attribution" in name] == [
        "step_00000100   attribution"
    ]


def test_a_copied_link_names_the_finding(views: Page) -> None:
    """Guards against a link that shows another head as soon as a later recording has another finding."""
    opened(views, run="gpt", view="sentence")
    views.driver.find_element("xpath", "//div[contains(@class, 'export')]//button[.='copy link']").click()
    wait_for(views, ".export-answer", "copied")
    copied = views.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert {"p.attention.head=0", "p.attention.layer=0", "p.attention.token=r5", "p.attention.rows=predicts"} <= {
        *copied.partition("#")[2].split("&")
    }


def test_an_exported_page_opens_with_its_finding(driver: Chrome, tmp_path: Path) -> None:
    """Guards against a rule that needs the server."""
    for step in (100, 200):
        store.save(Recording(step, (known.changed(),), parts=known.PARTS), tmp_path / "run")
    export(str(tmp_path / "run"), ExportSettings(to=str(tmp_path / "page.html")), [])
    page = Page(driver, "")
    page.open()
    driver.get(f"{(tmp_path / 'page.html').as_uri()}#attention&p.attention.view=map")
    page.wait(READY)
    assert "layer 0 · head 1, the head that adds most to its logit (+2.00)" in page.text(".finding")
    export(str(tmp_path / "run"), ExportSettings(to=str(tmp_path / "mean.html"), layer=0), [])
    driver.get((tmp_path / "mean.html").as_uri())
    page.wait(READY)
    assert "p.attention.head=mean" in driver.current_url
