"""What a person sees and does in the lines, sentence, strength and alignment views, and what the export buttons save.

The recordings are written down by hand: every expected number can be computed from the tables below.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys

from attention_maps import store
from attention_maps.recording import Antecedents, Prediction, Recording, Sample
from tests.attention_maps.tensorboard.browser.conftest import Page, marked, serving

SOURCE = ["▁Emi", "▁likes", "▁red", "▁apple", "s", ".", "</s>"]
TARGET = ["<s>", "エミは", "赤い", "りんごが", "好き", "です", "。", "</s>"]
LINKS = ((0, 0), (2, 1), (3, 2), (4, 2), (1, 3), (5, 5))

CROSS: list[list[float]] = [  # what each row, named by what it predicts, looks at: exact in float16
    [0.75, 0, 0, 0.25, 0, 0, 0],  # エミは
    [0, 0, 0.5, 0.25, 0, 0, 0.25],  # 赤い
    [0, 0, 0, 0.5, 0.25, 0, 0.25],  # りんごが
    [0.5, 0.25, 0, 0, 0, 0, 0.25],  # 好き: mostly at the wrong word
    [0, 0.125, 0, 0, 0, 0, 0.875],  # です: no word of the source means it
    [0, 0, 0, 0, 0, 1, 0],  # 。
    [0, 0, 0, 0, 0, 0, 1],  # </s>
]
STORY = ["</s>", "▁Kate", "▁hid", "▁her", "▁pen", ".", "▁She", "▁smiled", "."]
SHE = [0, 0.5, 0, 0.125, 0.25, 0, 0.125, 0, 0]  # looks at Kate, whom it means
HER = [0.25, 0.25, 0.5, 0, 0, 0, 0, 0, 0]  # looks at `hid`

TRANSLATION: dict[str, Any] = {"run": "translation", "recording": "step_00000200", "kind": "cross", "layer": 0, "head": 0}
TEXT: dict[str, Any] = {"run": "gpt", "recording": "step_00000100", "kind": "decoder", "layer": 0, "head": 0}


def translation(weights: np.ndarray, *, gold: bool = True) -> Sample:
    """A translation whose cross-attention [L,H,Q,K] is given; its other maps look at everything alike."""
    layers, heads, queries, keys = weights.shape
    causal = np.tril(np.ones((queries, queries))) / np.arange(1, queries + 1)[:, None]
    maps = {("cross", layer): weights[layer].astype(np.float16) for layer in range(layers)}
    for layer in range(layers):
        maps["encoder", layer] = np.full((heads, keys, keys), 1 / keys, np.float16)
        maps["decoder", layer] = np.stack([causal] * heads).astype(np.float16)
    strength = np.stack([np.full(queries, 3.0), np.arange(4.0, 4.0 + queries)]).astype(np.float16)
    return Sample(
        reads=marked(TARGET[:-1]),
        predicts=marked(TARGET[1:]),
        source=marked(SOURCE),
        losses=(0.5, 2.0, 0.25, 0.5, 0.125, 0.25, 0.0),
        predictions=tuple((Prediction(10, piece, 0.625), Prediction(99, "他", 0.25)) for piece in TARGET[1:]),
        weights=maps,
        norms={key: strength if key[0] != "encoder" else np.ones((heads, keys), np.float16) for key in maps},
        name="probe 1",
        length=queries,
        source_length=keys,
        links=LINKS if gold else None,
    )


def story() -> Sample:
    """A text in which two pronouns mean Kate."""
    length = len(STORY)
    weights = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    weights[3], weights[6] = HER, SHE
    maps = np.stack([weights, np.eye(length)]).astype(np.float16)
    return Sample(
        reads=marked(STORY),
        predicts=marked(STORY[1:]),
        source=None,
        losses=tuple(0.5 for _ in STORY[1:]),
        predictions=tuple((Prediction(10 + row, "▁pen", 0.5),) for row in range(length)),
        weights={("decoder", 0): maps},
        norms={("decoder", 0): np.ones((2, length), np.float16)},
        name="valid 1",
        length=length,
        antecedents=Antecedents("reads", ((3, 4, 1, 2), (6, 7, 1, 2))),
    )


def heads_of(first: list[list[float]]) -> np.ndarray:
    """[L=2,H=2,Q,K]: head 0 of layer 0 is `first`, head 1 looks at the diagonal, layer 1 at everything alike."""
    table = np.array(first)
    return np.stack([np.stack([table, np.eye(*table.shape)]), np.full((2, *table.shape), 1 / table.shape[1])])


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the browser puts what it saves."""
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def opened_views(driver: Chrome, tmp_path_factory: pytest.TempPathFactory, downloads: Path) -> Iterator[Page]:
    """The tab on runs that hold gold links and antecedents, and one that holds none."""
    folder = tmp_path_factory.mktemp("views")
    flat = heads_of([[1 / 8] * 7] * 7)
    store.save(Recording(100, (translation(flat),)), folder / "translation")
    store.save(Recording(200, (translation(heads_of(CROSS)),)), folder / "translation")
    store.save(Recording(100, (story(),)), folder / "gpt")
    plain = translation(heads_of(CROSS), gold=False)
    plain.norms.clear()
    store.save(Recording(200, (plain,)), folder / "older")
    with serving(folder) as address:
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
        permissions = {"origin": address, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        driver.execute_cdp_cmd("Browser.grantPermissions", permissions)
        page = Page(driver, address)
        page.load(**TRANSLATION)
        yield page
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "default"})


@pytest.fixture
def views(opened_views: Page) -> Iterator[Page]:
    """The opened tab; no script may have failed on the way."""
    opened_views.open()
    if not opened_views.driver.current_url.startswith(opened_views.address):
        opened_views.load(**TRANSLATION)
    opened_views.enter()
    opened_views.driver.get_log("browser")
    yield opened_views
    failed = [entry["message"] for entry in opened_views.driver.get_log("browser") if "Uncaught" in entry["message"]]
    assert not failed


def token(name: str) -> str:
    """The selector of a token: r3 is the fourth row, c0 the first column."""
    return f".token[data-token={name}]"


def numbers(page: Page) -> dict[str, str]:
    """Per token that carries numbers, what they say; several heads one after the other."""
    found = page.driver.find_elements("css selector", ".token-numbers:not(:empty)")
    return {
        one.find_element("xpath", "..").get_attribute("data-token") or "": " ".join(one.text.split()) for one in found
    }


def slide(page: Page, label: str, *keys: str) -> None:
    """Move the slider whose accessible name begins with `label`."""
    page.find(f"input[type=range][aria-label^='{label}']").send_keys(*keys)
    page.settle()


def wait_for(page: Page, selector: str, text: str) -> None:
    """Wait until an element says a text."""
    page.wait(f"return document.querySelector({selector!r})?.textContent.includes({text!r})")


# lines


def test_every_row_has_as_many_lines_as_chosen(views: Page) -> None:
    """Guards: a control that changes the number but not the drawing, and lines of weight 0."""
    views.show(**TRANSLATION, view="lines", top=1)
    assert views.text(".view-note").startswith("7 lines, the widest 1.")
    few = views.picture(".lines-view canvas")
    slide(views, "number of lines", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "top=3" not in views.hash  # three is what a link need not say
    expected = sum(min(3, sum(weight > 0 for weight in row)) for row in CROSS)
    assert views.text(".view-note").startswith(f"{expected} lines")
    assert views.picture(".lines-view canvas") != few


def test_rows_can_have_the_lines_that_hold_a_share_of_their_attention(views: Page) -> None:
    """Guards: a share that counts lines instead of weights."""
    views.show(**TRANSLATION, view="lines")
    views.click(".segments button[value=mass]")
    assert "mass=0.8" in views.hash
    # .75 + .25, .5 + .25 + .25, .5 + .25 + .25, .5 + .25 + .25, .875, 1, 1
    assert views.text(".view-note").startswith(f"{2 + 3 + 3 + 3 + 1 + 1 + 1} lines")
    slide(views, "number of lines", Keys.ARROW_LEFT)
    assert "mass=0.75" in views.hash
    assert views.text(".view-note").startswith(f"{1 + 2 + 2 + 2 + 1 + 1 + 1} lines")


def test_a_clicked_token_shows_only_its_lines_and_their_numbers(views: Page) -> None:
    """Guards: numbers at the wrong end, and one direction only."""
    views.show(**TRANSLATION, view="lines")
    views.click(token("r3"))
    assert "token=r3" in views.hash
    assert numbers(views) == {"c0": ".50", "c1": ".25", "c6": ".25"}
    assert views.text(".view-note").startswith("3 lines")
    views.click(token("c0"))
    assert numbers(views) == {"r0": ".75", "r3": ".50"}
    views.click(token("c0"))
    assert "token" not in views.hash


def test_pointing_at_a_token_is_enough(views: Page) -> None:
    """Guards: lines that stay after the pointer has left."""
    views.show(**TRANSLATION, view="lines")
    ActionChains(views.driver).move_to_element(views.find(token("r0"))).perform()
    assert numbers(views) == {"c0": ".75", "c3": ".25"}
    ActionChains(views.driver).move_to_element(views.find(".view-note")).perform()
    assert numbers(views) == {}


def test_a_line_tells_its_weight(views: Page) -> None:
    """Guards: lines whose exact weight nobody can read."""
    views.show(**TRANSLATION, view="lines", top=1)
    middle = """
        const box = (id) => document.querySelector(`[data-token=${id}]`).getBoundingClientRect();
        const stage = document.querySelector('.sheet-scroller').getBoundingClientRect();
        const [from, to] = [box(arguments[0]), box(arguments[1])];
        return [(from.right + to.left) / 2 - stage.left, (from.top + from.bottom + to.top + to.bottom) / 4 - stage.top];
    """
    x, y = views.driver.execute_script(middle, "r0", "c0")
    assert views.hover(".sheet-scroller", x, y)[:2] == ["エミは → Emi", "head 0: 0.7500"]


def test_several_heads_lie_over_one_another_in_their_own_colours(views: Page) -> None:
    """Guards: overlaid heads that cannot be told apart, or whose numbers are mixed up."""
    views.show(**TRANSLATION, view="lines", token="r3")
    assert views.texts(".heads button[aria-pressed=true]") == ["0"]
    views.click(".heads button[value='1']")
    assert "heads=0,1" in views.hash
    assert views.texts(".heads button[aria-pressed=true]") == ["0", "1"]
    views.wait("return document.querySelectorAll('.token-numbers > *').length === 4")
    assert numbers(views) == {"c0": ".50", "c1": ".25", "c3": "1", "c6": ".25"}
    colours = {
        name: views.find(f"{token(name)} .token-numbers > *").value_of_css_property("color") for name in ("c0", "c3")
    }
    assert colours["c0"] != colours["c3"]
    views.click(".heads button[value='0']")
    views.wait("return document.querySelectorAll('.token-numbers > *').length === 1")
    assert numbers(views) == {"c3": "1"}
    views.click(".heads button[value='0']")
    views.click(".heads button[value='1']")
    assert "heads" not in views.hash


def test_the_layout_can_be_switched(views: Page) -> None:
    """Guards: long Japanese lines of which every character takes a row (bertviz#18)."""
    views.show(**TRANSLATION, view="lines")
    assert views.find(".two-texts").get_attribute("data-layout") == "columns"
    views.choose("layout", "running text")
    assert "layout=text" in views.hash
    keys, queries = views.find(token("c0")).rect, views.find(token("r0")).rect
    assert keys["y"] + keys["height"] < queries["y"]
    assert views.find(token("r1")).rect["y"] == queries["y"]
    assert views.find(token("r0")).get_attribute("lang") == "ja"
    assert views.find(".lines-view canvas").get_attribute("lang") == "ja"


def test_arrow_keys_go_from_token_to_token_and_leave_the_time_alone(views: Page) -> None:
    """Guards: tokens that only a mouse reaches, and keys that also change step or layer."""
    views.show(**TRANSLATION, view="lines", token="r0")
    views.find(token("r0")).click()
    views.find(token("r0")).send_keys(Keys.ARROW_DOWN)
    views.settle()
    assert "token=r1" in views.hash
    views.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    views.settle()
    assert "token=c" in views.hash
    assert "step_00000200" in views.hash
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 0"
    views.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    views.settle()
    assert "token" not in views.hash


def test_lines_of_a_difference_tell_more_from_less(views: Page) -> None:
    """Guards: a difference whose negative lines look like positive ones."""
    views.show(**TRANSLATION, view="lines", against="step:step_00000100", token="r0")
    assert "dashed where there is less" in views.text(".view-note")
    assert numbers(views)["c0"] == ".63"
    assert numbers(views)["c1"] == "−.13"


# sentence


def test_a_clicked_word_shades_what_it_looks_at_and_is_judged(views: Page) -> None:
    """Guards: shades of another row than the one that was clicked, and a gold link that is shifted by one."""
    views.show(**TRANSLATION, view="sentence")
    assert "Nothing selected" in views.text(".view-note")
    views.click(token("r2"))
    assert numbers(views) == {"c3": ".50", "c4": ".25", "c6": ".25"}
    assert views.text(".sentence-panel h3") == "りんごが"
    assert "reads “赤い”, predicts “りんごが”" in views.text(".sentence-panel")
    assert views.text(".gold-told") == "gold translation: apple s"
    assert views.text(".verdict.right") == "✓ right: it gets the most attention (75.0 %)"
    assert [one.get_attribute("data-token") for one in views.driver.find_elements("css selector", ".gold")] == [
        "c3",
        "c4",
    ]
    strong, weak = (views.find(token(name)).value_of_css_property("background-color") for name in ("c3", "c4"))
    assert strong != weak
    views.click(token("r3"))
    assert views.text(".verdict.wrong") == "✗ wrong: “Emi” gets the most (50.0 %), the gold 25.0 %"


def test_a_source_word_tells_who_looks_at_it(views: Page) -> None:
    """Guards: a row that is shown where a column was asked for."""
    views.show(**TRANSLATION, view="sentence")
    views.click(token("c0"))
    assert numbers(views) == {"r0": ".75", "r3": ".50"}
    assert views.text(".gold-told") == "gold translation: エミは"


def test_the_panel_tells_what_was_expected_and_how_much_was_lost(views: Page) -> None:
    """Guards: predictions of the row before or after."""
    views.show(**TRANSLATION, view="sentence", token="r1")
    panel = views.text(".sentence-panel")
    assert "赤い" in panel
    assert "62.5 %" in panel
    assert "Loss of this token: 2.000 nats" in panel
    views.show(**TRANSLATION, view="sentence", token="r2", rows="reads")
    panel = views.text(".sentence-panel")
    assert "reads “赤い”, predicts “りんごが”" in panel
    assert "Loss of this token: 2.000 nats" in panel


def test_tokens_can_be_underlined_by_their_loss(views: Page) -> None:
    """Guards: underlines that do not grow with the loss."""
    views.show(**TRANSLATION, view="sentence")
    views.driver.find_element("xpath", "//label[contains(., 'underline by loss')]").click()
    views.settle()
    assert "losses=true" in views.hash
    widths = [
        float(views.find(token(f"r{row}")).value_of_css_property("border-bottom-width")[:-2]) for row in (1, 0, 2)
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[2]


def test_in_one_text_a_switch_turns_the_question_round(views: Page) -> None:
    """Guards: self-attention whose other direction cannot be seen."""
    views.show(**TEXT, view="sentence")
    views.click(token("r6"))
    assert numbers(views) == {"r1": ".50", "r3": ".13", "r4": ".25", "r6": ".13"}
    views.click(".segments button[value=back]")
    assert "token=c6" in views.hash
    assert numbers(views) == {"c6": ".13", "c7": ".13", "c8": ".11"}
    views.click(token("c1"))
    assert numbers(views)["c1"] == ".50"
    views.click(".segments button[value=forward]")
    assert "token=r1" in views.hash


def test_a_pronoun_is_judged_by_its_antecedent(views: Page) -> None:
    """Guards: an antecedent that counts as found because the sink or the pronoun itself gets more."""
    views.show(**TEXT, view="sentence", token="r6")
    assert views.text(".gold-told") == "gold antecedent: Kate"
    assert views.text(".verdict.right") == "✓ right: it gets the most attention of the words before it (50.0 %)"
    views.find(token("r6")).send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    views.settle()
    assert (
        views.text(".verdict.wrong") == "✗ wrong: “hid” gets the most of the words before it (50.0 %), the gold 25.0 %"
    )
    views.show(**TEXT, view="sentence", rows="predicts", token="r5")
    assert views.text(".sentence-panel h3") == "She"
    assert views.text(".gold-told") == "gold antecedent: Kate"


def test_what_comes_later_is_greyed(views: Page) -> None:
    """Guards: a future that looks like words of weight 0."""
    views.show(**TEXT, view="sentence", token="r3")
    later = [one.get_attribute("data-token") for one in views.driver.find_elements("css selector", ".token.future")]
    assert later == ["r4", "r5", "r6", "r7", "r8"]


def test_a_difference_of_sentences_has_signs(views: Page) -> None:
    """Guards: a difference that is shaded like a weight."""
    views.show(**TRANSLATION, view="sentence", against="step:step_00000100", token="r0")
    shown = numbers(views)
    assert shown["c0"] == ".63"
    assert shown["c1"] == "−.13"
    assert not views.driver.find_elements("css selector", ".verdict")


def test_merged_and_hidden_tokens_keep_their_gold(views: Page) -> None:
    """Guards: places of words that are taken for places of tokens."""
    views.show(**TRANSLATION, view="sentence", merge=True, hide=True, token="r2")
    assert views.text(".sentence-panel h3") == "りんごが"
    assert views.text(".gold-told") == "gold translation: apples"
    assert numbers(views) == {"c3": "1"}
    assert "25.0 % of the attention goes to hidden special tokens" in views.text(".sentence-panel")


# strength


def test_strength_sets_a_head_against_all_together(views: Page) -> None:
    """Guards: heads that are added up instead of laid side by side: 3 and 4 make 5."""
    views.show(**TRANSLATION, view="strength")
    wait_for(views, ".strength-legend", "all 2 heads together")
    assert views.texts(".legend-entry") == ["head 0", "all 2 heads together", "mean of the heads"]
    lines = views.hover(".sheet-scroller", 300, 26 + 10)
    assert lines == [
        "エミは (row 0)",
        "head 0: 3.000 (36.0 % of the squares)",
        "all 2 heads together: 5.000",
        "mean of the heads: 3.500",
    ]


def test_tokens_are_sorted_by_strength(views: Page) -> None:
    """Guards: an order of something else than what is drawn first."""
    views.show(**TRANSLATION | {"head": 1}, view="strength")
    wait_for(views, ".strength-legend", "head 1")
    first = views.picture(".strength-view canvas")
    views.click(".segments button[value=strength]")
    assert views.picture(".strength-view canvas") != first
    views.find(".sheet-scroller").send_keys(Keys.ARROW_DOWN)
    views.settle()
    assert "token=r6" in views.hash  # 10, the strongest
    views.find(".sheet-scroller").send_keys(Keys.ARROW_DOWN)
    views.settle()
    assert "token=r5" in views.hash


def test_every_head_has_its_bar_and_leads_to_it(views: Page) -> None:
    """Guards: bars of heads that cannot be told apart or chosen."""
    views.show(**TRANSLATION, view="strength", bars="each")
    wait_for(views, ".strength-legend", "head 1")
    assert views.hover(".sheet-scroller", 300, 26 + 10)[1:] == [
        "head 0: 3.000 (36.0 % of the squares)",
        "head 1: 4.000 (64.0 % of the squares)",
    ]
    views.driver.find_element("xpath", "//button[contains(@class, 'legend-entry')][.='head 1']").click()
    views.settle()
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 1"


def test_a_recording_without_strength_says_so(views: Page) -> None:
    """Guards: an empty drawing without a word, or bars of the recording seen before."""
    views.show(**TRANSLATION, view="strength")
    wait_for(views, ".strength-legend", "together")
    views.show(**TRANSLATION | {"run": "older"}, view="strength")
    wait_for(views, ".strength-view .view-note", "holds no activation strength")
    assert views.texts(".legend-entry") == []


# alignment


@pytest.mark.parametrize(
    ("readout", "links", "error", "counts"),
    [
        # A∩G = 0-0 2-1 3-2 5-5: AER = 1 − 2·4 / (6 + 6)
        ("argmax", "0-0 0-3 1-4 2-1 3-2 5-5", "33.3 %", [4, 2, 2]),
        # 1 − 2·4 / (4 + 6)
        ("mutual", "0-0 2-1 3-2 5-5", "20.0 %", [4, 0, 2]),
        # every weight from .2 on: 1 − 2·6 / (9 + 6)
        ("threshold", "0-0 0-3 1-3 2-1 3-0 3-1 3-2 4-2 5-5", "20.0 %", [6, 3, 0]),
    ],
)
def test_links_are_read_out_and_measured(views: Page, readout: str, links: str, error: str, counts: list[int]) -> None:
    """Guards: special tokens that take part, a score that is shifted by one row, marks in the wrong group."""
    views.show(**TRANSLATION, view="alignment")
    views.click(f".segments button[value={readout}]")
    assert views.find(".pharaoh").get_attribute("value") == links
    assert views.text(".error-rate") == error
    assert [int(count) for count in views.texts(".marks .count")] == counts
    assert views.texts(".marks th") == ["right", "wrong", "missed"]
    assert "This is the naming for alignment" in views.text(".naming")


def test_precision_and_recall_are_told(views: Page) -> None:
    """Guards: the two swapped."""
    views.show(**TRANSLATION, view="alignment", readout="mutual")
    assert "precision 100.0 %, recall 66.7 %" in views.text(".alignment-told")
    assert "AER = 1 − 2·4 / (4 + 6)" in views.text(".alignment-told")


def test_a_higher_threshold_links_less(views: Page) -> None:
    """Guards: a threshold that is shown but not used."""
    views.show(**TRANSLATION, view="alignment", readout="threshold", threshold=0.5)
    assert views.find(".pharaoh").get_attribute("value") == "0-0 0-3 2-1 3-2 5-5"
    slider = views.driver.find_element("xpath", "//label[.='from']/following-sibling::input")
    slider.send_keys(Keys.ARROW_RIGHT)
    views.settle()
    assert "threshold=0.55" in views.hash
    assert views.find(".pharaoh").get_attribute("value") == "0-0 5-5"


def test_links_are_copied(views: Page) -> None:
    """Guards: a button that says copied and did not."""
    views.show(**TRANSLATION, view="alignment")
    views.driver.find_element("xpath", "//button[.='Copy']").click()
    wait_for(views, ".alignment-told [role=status]", "copied")
    pasted = views.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert pasted == "0-0 0-3 1-4 2-1 3-2 5-5"


def test_links_can_be_read_out_of_means(views: Page) -> None:
    """Guards: a mean over heads that is a mean of other weights than the ones recorded."""
    views.show(**TRANSLATION, view="alignment")
    views.choose("read out of", "mean of its layer")
    wait_for(views, ".alignment-view .view-note", "layer 0 · mean of 2 heads")
    layer = (np.array(CROSS) + np.eye(7)) / 2
    assert views.find(".pharaoh").get_attribute("value") == argmax(layer)
    views.choose("read out of", "mean of all layers")
    wait_for(views, ".alignment-view .view-note", "mean of all layers and heads")
    assert views.find(".pharaoh").get_attribute("value") == argmax((layer + 1 / 7) / 2)


def argmax(weights: np.ndarray) -> str:
    """The links of the rows of words in Pharaoh's notation."""
    words = weights[:6, :6]
    return " ".join(f"{column}-{row}" for column, row in sorted((int(words[row].argmax()), row) for row in range(6)))


def test_rows_named_by_what_they_read_are_one_later(views: Page) -> None:
    """Guards: gold links that do not follow the naming of rows, so that the shifted reading is measured wrongly."""
    views.show(**TRANSLATION, view="alignment", rows="reads")
    assert "shifted reading of Chen et al. (2020)" in views.text(".naming")
    # now エミは names the row that predicts 赤い, and so on; the row of <s> takes no part
    expected = sorted((int(np.argmax(CROSS[row + 1][:6])), row) for row in range(5))
    last = [] if max(CROSS[6][:6]) == 0 else [(int(np.argmax(CROSS[6][:6])), 5)]
    assert views.find(".pharaoh").get_attribute("value") == " ".join(f"{a}-{b}" for a, b in expected + last)
    right = len(set(expected + last) & set(LINKS))
    assert int(views.texts(".marks .count")[0]) == right


def test_merged_tokens_are_aligned_as_words(views: Page) -> None:
    """Guards: words that are numbered by their pieces."""
    views.show(**TRANSLATION, view="alignment", merge=True)
    assert "in words" in views.text(".alignment-told")
    assert "3-2" in (views.find(".pharaoh").get_attribute("value") or "").split()
    assert "4-5" in (views.find(".pharaoh").get_attribute("value") or "").split()  # the full stop is the fifth word


def test_the_matrix_tells_weights_and_selects_rows(views: Page) -> None:
    """Guards: a matrix whose cells are one off from what a click on them does."""
    views.show(**TRANSLATION, view="alignment")
    hit = next(
        (x, y)
        for y in range(60, 300, 14)
        for x in range(60, 400, 14)
        if views.hover(".sheet-scroller", x, y) == ["好き ← Emi", "weight 0.5000", "wrong"]
    )
    views.hover(".sheet-scroller", *hit)
    ActionChains(views.driver).click().perform()
    views.settle()
    assert "token=r3" in views.hash
    views.find(".sheet-scroller").send_keys(Keys.ARROW_DOWN)
    views.settle()
    assert "token=r4" in views.hash


def test_links_can_be_drawn_between_texts(views: Page) -> None:
    """Guards: a second drawing that shows other links."""
    views.show(**TRANSLATION, view="alignment")
    matrix = views.picture(".alignment-view canvas")
    views.click(".segments button[value=text]")
    assert "paper=text" in views.hash
    assert len(views.texts(".alignment-view .token")) == 14
    assert views.picture(".alignment-view canvas") != matrix
    assert "213,94,0" in views.colours(".alignment-view canvas")  # the cross on a wrong link
    views.click(".segments button[value=matrix]")
    assert views.texts(".alignment-view .token") == []


def test_without_gold_links_are_read_out_but_not_judged(views: Page) -> None:
    """Guards: an error rate against nothing."""
    views.show(**TRANSLATION | {"run": "older"}, view="alignment")
    assert "holds no gold links" in views.text(".alignment-told")
    assert views.find(".pharaoh").get_attribute("value") == "0-0 0-3 1-4 2-1 3-2 5-5"
    assert not views.driver.find_elements("css selector", ".error-rate")
    views.show(**TEXT, view="alignment")
    assert "Gold links are between source and target" in views.text(".alignment-told")


def test_a_difference_is_not_aligned(views: Page) -> None:
    """Guards: links where two models differ most, taken for an alignment."""
    views.show(**TRANSLATION, view="alignment", against="step:step_00000100")
    wait_for(views, ".alignment-view .view-note", "nothing is subtracted here")
    assert views.find(".pharaoh").get_attribute("value") == "0-0 0-3 1-4 2-1 3-2 5-5"


# export


def saved(page: Page, downloads: Path, button: str) -> Path:
    """Press a button of the export and wait for its file."""
    for old in downloads.iterdir():
        old.unlink()
    page.driver.find_element("xpath", f"//div[contains(@class, 'export')]/button[.='{button}']").click()
    deadline = time.monotonic() + 30
    while True:
        found = [
            file
            for file in downloads.iterdir()
            if not file.name.endswith((".crdownload", ".tmp")) and file.stat().st_size
        ]
        if found:
            return found[0]
        assert time.monotonic() < deadline, f"{button} saved nothing: {page.text('.export-answer')}"
        time.sleep(0.05)


def test_csv_holds_the_weights_of_the_recording(views: Page, downloads: Path) -> None:
    """Guards: numbers that are rounded or transposed, and tokens with commas that break the columns."""
    views.show(**TRANSLATION, view="map")
    file = saved(views, downloads, "CSV")
    assert file.name == "translation_step_00000200_sample0_cross_layer0_head0.csv"
    raw = file.read_bytes().decode("utf-8-sig")
    assert raw.count("\r\n") == 8
    rows = list(csv.reader(io.StringIO(raw, newline="")))
    assert rows[0] == ["predicts", "Emi", "likes", "red", "apple", "s", ".", "</s>"]
    assert [row[0] for row in rows[1:]] == TARGET[1:]
    assert np.array_equal(np.array([row[1:] for row in rows[1:]], float), np.array(CROSS))


def test_json_says_what_the_numbers_are(views: Page, downloads: Path) -> None:
    """Guards: a file that nobody can tell the origin of."""
    views.show(**TRANSLATION, view="map", hide=True)
    told = json.loads(saved(views, downloads, "JSON").read_text("utf-8"))
    place = {key: told[key] for key in ("run", "recording", "step", "kind", "layer", "head", "rows_named_by")}
    assert place == TRANSLATION | {"step": 200, "rows_named_by": "predicts"}
    assert told["sample"] == {"number": 0, "name": "probe 1"}
    assert [one["text"] for one in told["keys"]] == ["Emi", "likes", "red", "apple", "s", "."]
    assert told["weights"][1] == pytest.approx([0, 0, 2 / 3, 1 / 3, 0, 0], abs=1e-6)
    assert told["hidden_share"][1] == 0.25


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("map", {"エミは", "好き", ".75", "cross-attention · layer 0 · head 0"}),
        ("lines", {"エミは", "Emi", "</s>"}),
        ("sentence", {"エミは", "Emi"}),
        ("strength", {"エミは", "3.00", "head 0"}),
        ("alignment", {"エミは"}),
    ],
)
def test_every_drawing_is_an_svg_that_stands_alone(views: Page, downloads: Path, view: str, words: set[str]) -> None:
    """Guards: drawings without their labels, or that need the page's style sheet."""
    views.show(**TRANSLATION, view=view)
    if view == "strength":
        wait_for(views, ".strength-legend", "together")
    file = saved(views, downloads, "SVG")
    assert file.name == f"translation_step_00000200_sample0_cross_layer0_head0_{view}.svg"
    text = file.read_text("utf-8")
    drawing = ET.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    texts = {one.text for one in drawing.iter(f"{name}text")}
    assert words <= texts
    assert {one.get("lang") for one in drawing.iter(f"{name}text") if one.text == "エミは"} == {"ja"}
    assert not re.search(r"url\(|class=|<style|NaN|undefined|foreignObject", text)
    assert "layer 0 · head 0" in drawing.findtext(f"{name}title", "")


def test_a_png_is_twice_the_size_of_the_drawing(views: Page, downloads: Path) -> None:
    """Guards: pictures that are empty or blurred on a slide."""
    views.show(**TRANSLATION, view="map")
    drawing = ET.fromstring(saved(views, downloads, "SVG").read_text("utf-8"))
    png = saved(views, downloads, "PNG").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (2 * int(drawing.get("width", 0)), 2 * int(drawing.get("height", 0)))
    assert len(png) > 5000


def test_a_comparison_is_named_in_its_files(views: Page, downloads: Path) -> None:
    """Guards: a difference that is taken for weights later, and names at which other tools split."""
    views.show(**TRANSLATION, view="map", against="step:step_00000100")
    file = saved(views, downloads, "JSON")
    assert file.name == "translation_step_00000200_sample0_cross_layer0_head0_minus_step-step_00000100.json"
    told = json.loads(file.read_text("utf-8"))
    assert told["minus"] == "step:step_00000100"
    assert told["weights"][0][0] == 0.625


def test_links_are_saved_as_a_text_file(views: Page, downloads: Path) -> None:
    """Guards: a file that holds other links than the alignment view shows."""
    views.show(**TRANSLATION, view="map", readout="mutual")
    assert saved(views, downloads, "Pharaoh").read_text("utf-8") == "0-0 2-1 3-2 5-5\n"
    views.show(**TRANSLATION, view="alignment", averaged="layer")
    wait_for(views, ".alignment-view .view-note", "mean of 2 heads")
    text = views.find(".pharaoh").get_attribute("value")
    assert saved(views, downloads, "Pharaoh").read_text("utf-8") == f"{text}\n"


def test_the_link_to_a_view_is_copied(views: Page) -> None:
    """Guards: a link to the tab that forgets what was seen."""
    views.show(**TRANSLATION, view="lines", heads="0,1", token="r2")
    views.driver.find_element("xpath", "//div[contains(@class, 'export')]/button[.='copy link']").click()
    wait_for(views, ".export-answer", "copied")
    copied = views.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert copied.startswith(views.address)
    for part in ("run=translation", "view=lines", "heads=0%2C1", "token=r2", "recording=step_00000200"):
        assert f"p.attention.{part}" in copied
