"""The story view in a browser."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlencode

from selenium.webdriver import ActionChains

from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from tests.attention_maps.tensorboard.browser.test_export import saved

WHY = """
    const done = arguments[arguments.length - 1];
    const curves = {measures: {alignment_error: {cross: [null, null, [[30]]]}}, counts: {alignment_error: 64}};
    const head = {kind: 'cross', layer: 0, head: 0};
    import('/data/plugin/attention/static/views/story/history.js').then(({evidence}) => {
      done([1, 2].map((birth) => evidence({head, name: 'alignment', birth}, curves)));
    });
"""
"""Script that returns why a head is labelled “alignment” before its first score, and since then."""
RUN = {"run": "history", "recording": "step_00000009", "view": "story"}


def band(page: Page, head: int, step: int) -> tuple[str, float, float]:
    """Return the selector of the band of a head, and a point of it just behind a step of the logarithmic scale."""
    selector = f".story-row[data-head='decoder|0|{head}'] .story-band"
    share = page.driver.execute_script("return Math.log1p(arguments[0]) / Math.log1p(9)", step)
    return selector, share * (page.find(selector).rect["width"] - 5) + 3, 8


def test_the_tab_opens_with_the_story_of_the_run(views: Page) -> None:
    """Guards against a first view of one map of one step, which tells a newcomer nothing; a label that a single dip
    ends; and a label on many examples that is taken for one of the text shown."""
    views.load("#attention&p.attention.run=history")
    assert views.text("[role=tab][aria-selected=true]") == "Story"
    assert views.texts(".story-events li > .link") == [
        "In 9 steps the loss of the recorded examples fell from 4.00 to 1.00 nats.",
        "Step 2: layer 0 · head 0 becomes “induction” (half or more of its attention in repeated random words).",
        "Step 9: layer 0 · head 0 becomes “previous token” (half or more of its attention), at the last step only.",
        "Step 9, the first with scores: layer 0 · head 1 is “coreference” (it finds the antecedent of half or more of"
        " 288 validation pronouns), at the last step only.",
        "Most important at the end: layer 0 · head 0. Without it the loss rises by 4.50 nats per token.",
    ]
    assert views.texts(".story-scores") == [
        "induction: 0.0 % at step 1 → 75.0 % at step 2 → 75.0 % at step 9.",
        "to the previous token: 50.0 % at step 2 → 50.0 % at step 9.",
        "pronouns resolved: not scored before → 62.5 % at step 9.",
    ]
    assert views.texts(".story-row .link") == [
        *("layer 0 · head 0", "induction since step 2", "previous token only at the last step"),
        *("layer 0 · head 1", "coreference only at the last step", "diagonal"),
    ]
    assert views.texts(".story-legend li") == ["coreference", "induction", "previous token", "diagonal"]
    wait_for(views, ".story-example", "without it?")
    assert views.text(".story-example") == (
        "Example shown, valid 1, its last pronoun: from “She” to “Kate” (all mentions) most by layer 0 · head 0, 33.3 %"
        " against 16.7 % to “pen” at the end; layer 0 · head 1, “coreference”: 0.0 %. What does the model predict"
        " without it?"
    )
    assert views.texts(".scores caption") == ["pronouns resolved, higher is better, 288 pronouns"]
    views.click(".story-example button")
    wait_for(views, ".pair-view h3", "From “She” to “Kate” (all mentions) at step 9")
    views.show(**RUN, token="r6")
    wait_for(views, ".story-example", "Example shown, valid 1, the selected word: from “She” to “Kate”")


def test_an_example_whose_maps_cannot_be_read_is_left_out(views: Page) -> None:
    """Guards against a line that says for ever that the maps are read, and one that never comes back."""
    empty = "return document.querySelector('.story-example').textContent === ''"
    views.driver.execute_cdp_cmd("Network.enable", {})
    views.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/pair?*"]})
    try:
        views.load(f"#attention&{urlencode({f'p.attention.{key}': value for key, value in RUN.items()})}")
        views.settle()
        views.wait(empty)
        views.click(".tile[data-head='1']")
        views.wait(empty)
    finally:
        views.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        views.driver.execute_cdp_cmd("Network.disable", {})
    views.click(".tile[data-head='0']")
    wait_for(views, ".story-example", "without it?")


def test_a_sentence_opens_the_map_of_the_step(views: Page) -> None:
    """Guards against sentences that lead to another head or step, or lose the selected word."""
    views.show(**RUN, token="r3")
    views.click(".story-events li:nth-child(2) button")
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".step-title") == "step 2"
    assert views.text(".frame-name") == "decoder self-attention · layer 0 · head 0"
    assert "measure=induction" in views.hash, "the list of heads and the curves show what the sentence names"
    assert "token=r3" in views.hash
    views.show(**RUN)
    views.click(".story-events li:nth-child(4) button")
    assert {"p.attention.head=1", "p.attention.token=r6"} <= {*views.hash.split("&")}, "the pronoun of the text"


def test_what_is_said_can_be_checked_beside_a_rule_without_a_model(views: Page) -> None:
    """Guards against a step without scores, a strongest head that is the first one wherever the last step has no
    scores, and a praised head that a simple rule beats."""
    views.show(run="evaluated", recording="step_00000050", view="story")
    wait_for(views, ".story-events", "Step 20: layer 0 · head 1 becomes “coreference”")
    assert views.text(".story-events .link").endswith("at the end the strongest of 2 heads with this label.")
    assert views.text(".story-scores") == (
        "pronouns resolved: not scored before → 70.0 % at step 30 → 80.0 % at step 40. The rule “last subject”,"
        " without a model: 75.0 %, worse than this head’s 80.0 %. Among nouns that agree with the pronoun: “last"
        " subject” 92.0 %, better than this head’s 85.0 %."
    )
    for clicked in (".story-events .link", ".story-scores .link"):
        views.click(clicked)
        assert views.text("[role=tab][aria-selected=true]") == "Map"
        assert views.text(".step-title") == "step 30", "at which there are scores"
        assert "pronouns resolved 70.0 %" in views.text(".frame-detail")
        views.show(run="evaluated", recording="step_00000050", view="story")
    views.click(".story-scores .link:nth-of-type(2)")
    assert views.text(".step-title") == "step 40"


def test_an_alignment_before_the_first_score_is_told_by_its_shape(views: Page) -> None:
    """Guards against a score on validation pairs that nobody has computed yet."""
    assert views.driver.execute_async_script(WHY) == [
        "by the shape of its map; scored against gold labels only later",
        "alignment error of half or less on 64 validation pairs",
    ]


def test_importance_and_the_step_of_the_example_are_links(views: Page) -> None:
    """Guards against figures of the story that lead nowhere."""
    views.show(**RUN)
    views.click(".story-row[data-head='decoder|0|0'] .story-importance")
    assert views.text("[role=tab][aria-selected=true]") == "Curves"
    assert {"p.attention.measure=importance", "p.attention.head=0"} <= {*views.hash.split("&")}
    views.show(**RUN)
    wait_for(views, ".story-example", "coreference")
    views.driver.find_element("xpath", "//*[@class='story-example']/button[.='layer 0 · head 1']").click()
    views.settle()
    assert views.text(".frame-name") == "decoder self-attention · layer 0 · head 1"
    assert {"p.attention.token=r5", "p.attention.rows=predicts"} <= {*views.hash.split("&")}, "where it attends most"


def test_a_band_tells_the_label_at_each_step_and_leads_there(views: Page) -> None:
    """Guards against bands that are shifted by a step, and a click that does not open the map."""
    views.show(**RUN)
    assert views.hover(*band(views, 0, 1)) == ["step 1", "loss 3.000 nats", "layer 0 · head 0: previous token 50 %"]
    assert views.hover(*band(views, 1, 2)) == ["step 2", "loss 2.000 nats", "layer 0 · head 1: induction 75 %"]
    ActionChains(views.driver).click().perform()
    views.settle()
    assert views.text(".step-title") == "step 2"
    assert views.text("[role=tab][aria-selected=true]") == "Map"
    assert views.text(".frame-name") == "decoder self-attention · layer 0 · head 1"
    views.click("#tab-story")
    assert views.attributes(".story-row.selected", "data-head") == ["decoder|0|1"]


def test_the_bands_have_the_colours_of_the_labels(views: Page) -> None:
    """Guards against a picture that does not fit its legend."""
    views.show(**RUN)
    views.click("button[value=even]")
    diagonal, induction = (86, 180, 233), (204, 121, 167)
    colours = [views.colours(f".story-row[data-head='decoder|0|{head}'] canvas") for head in range(2)]
    assert ",".join(map(str, diagonal)) in colours[1] - colours[0]  # all of the attention
    mixed = {tuple(round(255 + 0.8125 * (part - 255)) + by for part in induction) for by in (-1, 0, 1)}  # 75 % of it
    assert any(",".join(map(str, colour)) in colours[0] & colours[1] for colour in mixed)
    lines = views.driver.execute_script("return document.querySelector('.story-now').style.left")
    views.show(**RUN | {"recording": "step_00000001"})
    assert views.driver.execute_script("return document.querySelector('.story-now').style.left") != lines


def test_curves_lead_to_steps_with_scores_and_always_show_the_rule(views: Page, downloads: Path) -> None:
    """Guards against a click that leads to a step without the score, and a baseline that only some steps show."""
    views.show(run="evaluated", recording="step_00000050", view="curves", measure="antecedent", kind="decoder", layer=0)
    views.wait("return document.querySelector('.chart-stage canvas').getAttribute('aria-label')")
    views.wait("return !document.querySelector('.chart-stage canvas').hidden")
    assert views.hover(".chart-stage canvas", 70, 100)[0] == "step 30", "the first step with scores"
    ActionChains(views.driver).click().perform()
    views.settle()
    assert views.text(".step-title") == "step 30"
    views.show(run="evaluated", recording="step_00000050", view="curves", measure="antecedent", kind="decoder", layer=0)
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    texts = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert "baseline: last subject, 75.0 %" in texts, "at a step without scores"
    paths = drawing.iter("{http://www.w3.org/2000/svg}path")
    ends = [re.findall(r"[\d.]+", path.get("d") or "") for path in paths]
    rising = [(x, y) for x, y, *_, last_x, last_y in ends if x != last_x and y != last_y]
    assert len(rising) == 2, "a line of each head, across a step without scores"
