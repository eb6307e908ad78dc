"""Every view in Firefox: it opens, draws and can be clicked. The other browser tests use Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser import marionette
from tests.attention_maps.tensorboard.browser.known import PROBE, TEXT, TRANSLATION, State
from tests.attention_maps.tensorboard.browser.page import WAIT, Page, token, wait_for
from tests.attention_maps.tensorboard.browser.test_layout import CUT, VIEWS, open_view

LISTEN = """
    window.failed = [];
    const notice = 'ResizeObserver loop'; // of a resized window: what is left is drawn in the next frame
    window.addEventListener('error', ({message}) => message.startsWith(notice) || window.failed.push(message));
"""
WINDOW = 0, 0, 1300, 985
STORY: State = {"run": "history", "recording": "step_00000002", "kind": "decoder", "layer": 0, "head": 0}


@pytest.fixture(scope="session")
def firefox(views_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Open the tab in Firefox; skip the tests if it is not installed."""
    program = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if not program:
        pytest.skip("no Firefox is installed: `make browser` installs it")
    with marionette.firefox(program, tmp_path_factory.mktemp("firefox")) as driver:
        driver.set_script_timeout(WAIT)
        driver.set_window_rect(*WINDOW)
        page = Page(driver, views_server)
        page.load(**TRANSLATION)
        driver.execute_script(LISTEN)
        yield page


@pytest.fixture
def page(firefox: Page) -> Iterator[Page]:
    """Return the open tab; fail if a script error occurred."""
    firefox.enter()
    yield firefox
    firefox.enter()
    assert firefox.driver.execute_script("return window.failed.splice(0)") == []


def press_at(page: Page, selector: str, right: int, down: int) -> None:
    """Click a point of an element, in pixels from its upper left corner."""
    element = page.find(selector)
    x, y = right - element.rect["width"] / 2, down - element.rect["height"] / 2
    ActionChains(page.driver, duration=0).move_to_element_with_offset(element, round(x), round(y)).click().perform()
    page.settle()


def test_the_map_is_drawn_hovered_clicked_and_zoomed(page: Page) -> None:
    """Guards against a blank map, pointer events at another place, and keys that go elsewhere."""
    page.show(**TRANSLATION)
    whole = page.picture(".cells")
    assert len(page.colours(".cells")) > 4
    box = page.find(".pointer").rect
    middle = round(box["width"] / 2), round(box["height"] / 2)
    assert " → " in page.hover(".pointer", *middle)[0]
    press_at(page, ".pointer", *middle)
    assert "token=" in page.hash
    page.press(Keys.ESCAPE, "+")
    assert page.picture(".cells") != whole
    page.press("0", Keys.ARROW_LEFT)
    assert page.text(".step-title") == "step 100"
    page.choose("run", "gpt")
    page.wait("return document.querySelector('.frame-name').textContent.startsWith('decoder')")


def test_charts_and_forms_are_used(page: Page) -> None:
    """Guards against views that stay empty or ignore clicks: alignment, curves, the pictures of the steps, and ask."""
    page.show(**TRANSLATION, view="alignment", token="")
    text = "return document.querySelector('.pharaoh').value"
    argmax = page.driver.execute_script(text)
    page.click(".segments button[value=mutual]")
    assert page.driver.execute_script(text) not in ("", argmax)
    page.show(**STORY, view="curves", measure="induction")
    page.wait("return document.querySelector('.chart-stage canvas').getAttribute('aria-label')")
    assert len(page.colours(".chart-stage canvas")) > 2
    press_at(page, ".chart-stage canvas", 70, 100)
    assert page.text(".step-title") == "step 0"
    page.show(**TRANSLATION, view="story")
    page.wait("return document.querySelectorAll('.step-tile[title]').length === 2")
    page.click(".step-tile:nth-child(1)")
    assert page.text(".step-title") == "step 100"
    page.show(**TRANSLATION, view="sentence")
    page.click(token("r2"))
    assert page.text(".verdict.right").startswith("✓ right")
    page.show(**TEXT, view="ask")
    page.find(".ask-form textarea").send_keys("!")
    page.click(".ask-send")
    wait_for(page, ".ask-status", "checkpoint")


def test_nothing_is_cut_off_in_a_small_window(page: Page) -> None:
    """Guards against a layout that only Chromium's fonts and scroll bars leave room for."""
    page.driver.set_window_rect(0, 0, 800, 785)
    try:
        for view in VIEWS:
            open_view(page, view, **PROBE, token="r3")
            assert page.driver.execute_script(CUT) == [], view
    finally:
        page.enter()
        page.driver.set_window_rect(*WINDOW)
