"""The tab in a window of 1,024 x 700 pixels, of which TensorBoard leaves about 490 for the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.page import Page

GPT = {"run": "gpt", "recording": "step_00000300", "kind": "decoder", "layer": 0, "head": 0}
BUTTON = ".bar .fold-button"


@pytest.fixture
def small(page: Page) -> Iterator[Page]:
    """Return the open tab in a small window."""
    before = page.driver.get_window_size()
    page.driver.set_window_size(1024, 700)
    yield page
    page.enter()
    page.driver.set_window_size(before["width"], before["height"])


def test_a_small_window_leaves_room_for_the_map(small: Page) -> None:
    """Guards against controls that take half of a small window, and a map that leaves its width empty."""
    small.show(**GPT)
    sizes = small.driver.execute_script("""
        const height = (selector) => document.querySelector(selector).getBoundingClientRect().height;
        const scrolls = document.scrollingElement.scrollHeight > window.innerHeight;
        return [height('.bar'), height('.map-stage'), window.innerHeight, scrolls];
    """)
    assert sizes[0] < 0.25 * sizes[2]
    assert sizes[1] > 0.4 * sizes[2]
    assert not sizes[3]


def test_display_options_are_behind_one_button(small: Page) -> None:
    """Guards against options that cannot be reached in a small window, also by keyboard."""
    small.show(**GPT)
    assert not small.find(".fold-body input[type=checkbox]").is_displayed()
    small.find(BUTTON).send_keys(Keys.ENTER)
    assert small.find(BUTTON).get_attribute("aria-expanded") == "true"
    small.click(".fold-body input[type=checkbox]")
    assert "hide=true" in small.hash
    small.find(".fold-body input[type=checkbox]").send_keys(Keys.ESCAPE)
    assert not small.find(".fold-body input[type=checkbox]").is_displayed()
    assert small.find(".export button").is_displayed()


def test_labels_that_are_left_out_are_announced(small: Page) -> None:
    """Guards against rows whose labels vanish silently."""
    small.show(run="long", recording="step_00000100")
    assert small.text(".labelled").startswith("Only every ")
    small.show(**GPT)
    assert small.text(".labelled") == ""


def test_a_small_window_keeps_what_a_newcomer_needs(small: Page) -> None:
    """Guards against three steps that only a large window shows, and bars that are too short to be compared."""
    small.show(**GPT, view="pair")
    small.wait("return document.querySelector('.pair-view')?.getAttribute('aria-busy') === 'false'")
    assert small.find(".pair-heads .bar-room").rect["width"] > 90
    assert small.driver.execute_script(
        "const {scrollWidth, clientWidth} = document.querySelector('.view'); return scrollWidth <= clientWidth"
    )
    small.show(**GPT, view="story")
    assert small.find(".story-start .link").is_displayed()
