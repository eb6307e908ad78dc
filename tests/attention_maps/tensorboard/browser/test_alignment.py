"""The alignment view in a browser."""

from __future__ import annotations

import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from attention_maps.record.alignment_readout import grown
from tests.attention_maps.tensorboard.browser.known import CROSS, LINKS, TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, wait_for


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
    """Guards against links of special tokens, scores shifted by one row, and wrongly classified links."""
    views.show(**TRANSLATION, view="alignment")
    views.click(f".segments button[value={readout}]")
    assert views.find(".pharaoh").get_attribute("value") == links
    assert views.text(".error-rate") == error
    assert [int(count) for count in views.texts(".marks .count")] == counts
    assert views.texts(".marks th") == ["right", "wrong", "missed"]
    assert "Use this for alignment" in views.text(".naming")
    if readout == "mutual":
        assert "precision 100.0 %, recall 66.7 %" in views.text(".alignment-report")
        assert "AER = 1 − 2·4 / (4 + 6)" in views.text(".alignment-report")
    views.driver.find_element("xpath", "//button[.='Copy']").click()
    wait_for(views, ".alignment-report [role=status]", "copied")
    pasted = views.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert pasted == links


def test_links_grow_from_the_mutual_ones(views: Page) -> None:
    """Guards against a different algorithm or order than that of the recorded scores."""
    views.show(**TRANSLATION, view="alignment", readout="grown")
    # Mutual are 0-0 2-1 3-2 5-5. Of the strongest of either side, 4-2 touches 3-2 and s has no link yet, 1-3 touches
    # nothing at first; 0-3, and 1-4 neither. Then 1-3 is still alone: nothing more is added.
    by_hand = "0-0 2-1 3-2 4-2 5-5"
    words = np.array(CROSS)[:6, :6]
    expected = sorted((int(column), int(row)) for row, column in np.argwhere(grown(words) & (words > 0)))
    assert by_hand == " ".join(f"{column}-{row}" for column, row in expected)
    assert views.find(".pharaoh").get_attribute("value") == by_hand
    assert views.text(".error-rate") == "9.1 %"  # 1 − 2·5 / (5 + 6)


def test_a_higher_threshold_links_less(views: Page) -> None:
    """Guards against a threshold without effect."""
    views.show(**TRANSLATION, view="alignment", readout="threshold", threshold=0.5)
    assert views.find(".pharaoh").get_attribute("value") == "0-0 0-3 2-1 3-2 5-5"
    slider = views.driver.find_element("xpath", "//label[.='from']/following-sibling::input")
    slider.send_keys(Keys.ARROW_RIGHT)
    views.settle()
    assert "threshold=0.55" in views.hash
    assert views.find(".pharaoh").get_attribute("value") == "0-0 5-5"


def test_links_can_be_read_out_of_means(views: Page) -> None:
    """Guards against a mean over other weights than the recorded ones."""
    views.show(**TRANSLATION, view="alignment")
    views.choose("extract from", "mean of its layer")
    wait_for(views, ".alignment-view .view-note", "layer 0 · mean of 2 heads")
    layer = (np.array(CROSS) + np.eye(7)) / 2
    assert views.find(".pharaoh").get_attribute("value") == argmax(layer)
    views.choose("extract from", "mean of all layers")
    wait_for(views, ".alignment-view .view-note", "mean of all layers and heads")
    assert views.find(".pharaoh").get_attribute("value") == argmax((layer + 1 / 7) / 2)


def argmax(weights: np.ndarray) -> str:
    """Return the links in Pharaoh format."""
    words = weights[:6, :6]
    return " ".join(f"{column}-{row}" for column, row in sorted((int(words[row].argmax()), row) for row in range(6)))


def test_rows_named_by_what_they_read_are_one_later(views: Page) -> None:
    """Guards against gold links that do not follow the row labels, which gives wrong scores for shifted alignments."""
    views.show(**TRANSLATION, view="alignment", rows="reads")
    assert "shifted alignment of Chen et al. (2020)" in views.text(".naming")
    # now エミは names the row that predicts 赤い, and so on; the row of <s> takes no part
    expected = sorted((int(np.argmax(CROSS[row + 1][:6])), row) for row in range(5))
    last = [] if max(CROSS[6][:6]) == 0 else [(int(np.argmax(CROSS[6][:6])), 5)]
    assert views.find(".pharaoh").get_attribute("value") == " ".join(f"{a}-{b}" for a, b in expected + last)
    right = len(set(expected + last) & set(LINKS))
    assert int(views.texts(".marks .count")[0]) == right


def test_merged_tokens_are_aligned_as_words(views: Page) -> None:
    """Guards against words numbered by their pieces."""
    views.show(**TRANSLATION, view="alignment", merge=True)
    assert "in words" in views.text(".alignment-report")
    assert "3-2" in (views.find(".pharaoh").get_attribute("value") or "").split()
    assert "4-5" in (views.find(".pharaoh").get_attribute("value") or "").split()  # the full stop is the fifth word


def test_the_matrix_tells_weights_and_selects_rows(views: Page) -> None:
    """Guards against clicks that select an adjacent cell."""
    views.show(**TRANSLATION, view="alignment")

    def is_cell(x: int, y: int) -> bool:
        return views.hover(".sheet-scroller", x, y) == ["好き ← Emi", "weight 0.5000", "wrong"]

    left, top = next((x, y) for y in range(60, 300, 14) for x in range(60, 200, 14) if is_cell(x, y))
    columns = [x for x in range(left - 28, left + 32, 4) if is_cell(x, top)]
    rows = [y for y in range(top - 28, top + 32, 4) if is_cell(left, y)]
    x, y = (columns[0] + columns[-1]) // 2, (rows[0] + rows[-1]) // 2
    nearby = """
        const pen = document.querySelector('.alignment-view canvas').getContext('2d');
        return [...pen.getImageData(...arguments, 7, 7).data];
    """
    pixels = np.array(views.driver.execute_script(nearby, x - 3, y - 3)).reshape(-1, 4)
    assert [213, 94, 0, 255] in pixels.tolist()  # the middle of the cross on a wrong link
    views.hover(".sheet-scroller", x, y)
    ActionChains(views.driver).click().perform()
    views.settle()
    assert "token=r3" in views.hash
    views.find(".sheet-scroller").send_keys(Keys.ARROW_DOWN)
    views.settle()
    assert "token=r4" in views.hash


def test_links_can_be_drawn_between_texts(views: Page) -> None:
    """Guards against different links in the two drawings."""
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
    """Guards against an error rate without gold links."""
    views.show(**TRANSLATION | {"run": "older"}, view="alignment")
    assert "contains no gold links" in views.text(".alignment-report")
    assert views.find(".pharaoh").get_attribute("value") == "0-0 0-3 1-4 2-1 3-2 5-5"
    assert not views.driver.find_elements("css selector", ".error-rate")


def test_one_text_has_no_alignment(views: Page) -> None:
    """Guards against words of a GPT's text linked as if aligned, and links of the map before."""
    views.show(**TRANSLATION, view="alignment")
    views.show(**TEXT, view="alignment")
    assert views.text(".alignment-view") == (
        "An alignment links the words of two texts; a GPT has only one. "
        "Pair and Sentence show which words its tokens attend to."
    )
    assert not views.find(".controls-of-view > *").is_displayed()
    views.show(**TEXT, view="map")
    assert not views.find("#tab-alignment").is_displayed(), "it is not offered"
    views.show(**TRANSLATION, view="alignment")
    assert views.find(".pharaoh").is_displayed()


def test_a_difference_is_not_aligned(views: Page) -> None:
    """Guards against links extracted from a difference of two maps."""
    views.show(**TRANSLATION, view="alignment", against="step:step_00000100")
    wait_for(views, ".alignment-view .view-note", "without subtraction")
    assert views.find(".pharaoh").get_attribute("value") == "0-0 0-3 1-4 2-1 3-2 5-5"
