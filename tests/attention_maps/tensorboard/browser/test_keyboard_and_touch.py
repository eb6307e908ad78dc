"""Everything is reached by the keyboard and has a name; fingers do what a mouse does."""

from __future__ import annotations

from collections.abc import Iterable

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from tests.attention_maps.tensorboard.browser.test_layout import VIEWS, open_view

FOCUSED = """
    const one = document.activeElement;
    const {outlineStyle, outlineWidth} = getComputedStyle(one);
    window.reached.add(one);
    return [one.outerHTML.slice(0, 120), outlineStyle !== 'none' && parseFloat(outlineWidth) > 0];
"""
MISSED = """
    const shown = (one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled && !one.closest('dialog');
    const controls = `${arguments[0]} :is(button, input, select, textarea, summary, [tabindex])`;
    const all = [...document.querySelectorAll(controls)].filter(shown);
    const group = (one) => one.closest('.tabs, .tiles, .two-texts, .passages');
    const reached = [...window.reached];
    return all.filter((one) => !window.reached.has(one) && !reached.some((other) => group(one)?.contains(other)))
      .map((one) => one.outerHTML.slice(0, 160));
"""
NAMELESS = """
    const hidden = (one) => one.closest('[aria-hidden=true], button');
    const named = (one) => one.getAttribute('aria-label') && one.getAttribute('role');
    return [...document.querySelectorAll('.page canvas')]
      .filter((one) => one.checkVisibility() && !hidden(one) && !named(one)).map((one) => one.outerHTML);
"""


def tab_through(page: Page, first: str) -> Iterable[str]:
    """Press Tab from the control `first` to the last one; yield each focused element without a visible outline."""
    page.driver.execute_script("window.reached = new Set(); document.querySelector(arguments[0]).focus();", first)
    page.driver.execute_script(FOCUSED)
    for _ in range(120):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        outer = page.driver.execute_script("return document.activeElement === document.body")
        if outer or not page.driver.execute_script("return document.hasFocus()"):
            return
        text, visible = page.driver.execute_script(FOCUSED)
        if not visible:
            yield text
    raise AssertionError("Tab does not leave the page")


def test_every_control_of_every_view_is_reached_by_tab(views: Page) -> None:
    """Guards against controls that only a mouse reaches, an invisible focus, and pictures without a name."""
    for view in VIEWS:
        open_view(views, view, **TEXT, token="r3")
        around = view == VIEWS[0]  # what is around the views is the same for all
        assert list(tab_through(views, ".list-button" if around else "[role=tab][aria-selected=true]")) == [], view
        assert views.driver.execute_script(MISSED, ".page" if around else "#view") == [], view
        assert views.driver.execute_script(NAMELESS) == [], view


def test_arrows_on_the_pictures_choose_a_head(views: Page) -> None:
    """Guards against pictures whose focus stays at the head before."""
    views.show(**TRANSLATION)
    views.find(".tile[aria-pressed=true]").send_keys(Keys.ARROW_RIGHT)
    views.settle()
    assert views.text(".frame-name").endswith("layer 0 · head 1")
    assert views.driver.switch_to.active_element.get_attribute("aria-label") == "layer 0 head 1"
    views.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    views.settle()
    assert views.driver.switch_to.active_element.get_attribute("aria-label") == "layer 1 head 1"


def touch(page: Page, kind: str, *points: tuple[float, float]) -> None:
    """Send a touch event; points in pixels of the tab's frame."""
    left, top = page.driver.execute_script(
        "const box = frameElement.getBoundingClientRect(); return [box.left, box.top]"
    )
    page.driver.execute_cdp_cmd(
        "Input.dispatchTouchEvent",
        {"type": kind, "touchPoints": [{"x": left + x, "y": top + y, "id": i} for i, (x, y) in enumerate(points)]},
    )


def middle(page: Page, selector: str) -> tuple[float, float]:
    """Return the middle of an element in the frame."""
    script = """
        const {left, top, width, height} = document.querySelector(arguments[0]).getBoundingClientRect();
        return [left + width / 2, top + height / 2];
    """
    x, y = page.driver.execute_script(script, selector)
    return x, y


def test_a_finger_hovers_and_chooses(views: Page) -> None:
    """Guards against taps that do nothing: the tooltip is shown while the finger is down, the click follows."""
    views.show(**TRANSLATION)
    place = middle(views, ".pointer")
    touch(views, "touchStart", place)
    assert " → " in views.texts(".tooltip:not([hidden]) > div")[0]
    touch(views, "touchEnd")
    views.wait("return parent.location.hash.includes('token=')")
    views.show(run="history", recording="step_00000009", kind="decoder", view="story")
    wait_for(views, ".story-view .view-note", "A band")
    touch(views, "touchStart", middle(views, ".story-band canvas"))
    assert views.texts(".tooltip:not([hidden]) > div")[0].startswith("step ")
    touch(views, "touchEnd")
    views.wait("return !document.querySelector('.step-title').textContent.endsWith('step 9')")


def test_two_fingers_zoom_and_one_drags_the_map(views: Page) -> None:
    """Guards against pinching that scrolls the page, or a drag that selects a row."""
    views.show(**TRANSLATION)
    whole = views.picture(".cells")
    x, y = middle(views, ".pointer")
    touch(views, "touchStart", (x - 30, y), (x + 30, y))
    for by in (50, 80, 120):
        touch(views, "touchMove", (x - by, y), (x + by, y))
    touch(views, "touchEnd")
    zoomed = views.picture(".cells")
    assert zoomed != whole
    touch(views, "touchStart", (x, y))
    for by in (10, 30, 60):
        touch(views, "touchMove", (x - by, y - by))
    touch(views, "touchEnd")
    assert views.picture(".cells") not in (zoomed, whole)
    assert "token=&" in f"{views.hash}&"
    views.press("0")


def test_a_finger_drags_the_slider(views: Page) -> None:
    """Guards against a slider that a finger cannot move."""
    views.show(**TRANSLATION)
    box = views.driver.execute_script("return document.querySelector('.steps').getBoundingClientRect().toJSON()")
    y = box["top"] + box["height"] / 2
    touch(views, "touchStart", (box["right"] - 5, y))
    for share in (0.8, 0.5, 0.1):
        touch(views, "touchMove", (box["left"] + share * box["width"], y))
    touch(views, "touchEnd")
    views.wait("return document.querySelector('.step-title').textContent === 'step 100'")
