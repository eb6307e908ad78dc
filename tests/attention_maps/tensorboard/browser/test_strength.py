"""The strength view in a browser."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.known import TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, wait_for


def test_strength_sets_a_head_against_all_together(views: Page) -> None:
    """Guards against adding norms instead of computing the norm of the concatenation: 3 and 4 give 5."""
    views.show(**TRANSLATION, view="strength")
    wait_for(views, ".strength-legend", "all 2 heads together")
    assert views.texts(".legend-entry") == ["head 0", "all 2 heads together", "mean of the heads"]
    assert views.text(".legend-title") == "L2 norm of the output of"
    lines = views.hover(".sheet-scroller", 300, 26 + 10)
    assert lines == [
        "エミは (row 0)",
        "head 0: 3.000 (36.0 % of the squares)",
        "all 2 heads together: 5.000",
        "mean of the heads: 3.500",
    ]


def test_tokens_are_sorted_by_strength(views: Page) -> None:
    """Guards against sorting by another series than the first."""
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
    """Guards against bars of heads that cannot be told apart or chosen."""
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
    """Guards against an empty drawing without a message, and bars of the previous recording."""
    views.show(**TRANSLATION, view="strength")
    wait_for(views, ".strength-legend", "together")
    views.show(**TRANSLATION | {"run": "older"}, view="strength")
    wait_for(views, ".strength-view .view-note", "contains no activation strength")
    assert views.texts(".legend-entry") == []
