"""Nothing is cut off, moves or is unreadable, in windows of four sizes: measured, not compared with pictures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import pytest

from tests.attention_maps.tensorboard.browser.known import PROBE, TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page

SIZES = {"large": (1440, 900), "small": (1024, 700), "tablet": (800, 600), "phone": (390, 844)}
VIEWS = "story map lines sentence pair prediction ask circuits alignment curves".split()
DRAWN = {
    "pair": "document.querySelector('.pair-view')?.getAttribute('aria-busy') === 'false'",
    "story": "document.querySelector('.step-tile') && !document.querySelector('.step-tile:not([title])')",
}

CUT = """
    const clips = (one) => getComputedStyle(one).overflowX !== 'visible';
    const found = [];
    for (const one of document.querySelectorAll('.page *')) {
      const own = [...one.childNodes].some(({nodeType, data}) => nodeType === 3 && data.trim());
      const shortened = getComputedStyle(one).textOverflow === 'ellipsis';
      if (!(own || one.tagName === 'BUTTON') || shortened || !one.checkVisibility({visibilityProperty: true})) continue;
      const range = document.createRange();
      range.selectNodeContents(one);
      const box = own ? range.getBoundingClientRect() : one.getBoundingClientRect();
      let around = one;
      while (around && !clips(around)) around = around.parentElement;
      const {left, right} = around ? around.getBoundingClientRect() : {left: 0, right: innerWidth};
      const outside = box.left < left - 1 || box.right > right + 1;
      if (box.width && outside) found.push(`${one.className}: ${one.textContent}`);
    }
    const {scrollWidth, clientWidth} = document.scrollingElement;
    return scrollWidth > clientWidth ? ['the page scrolls sideways', ...found] : found;
"""
"""Texts and buttons that reach sideways beyond the window, or beyond the element that clips or scrolls them."""

FAINT = """
    const parts = (colour) => {
      const [r, g, b, alpha = 1] = colour.match(/[\\d.]+/g).map(Number);
      return colour.startsWith('color') ? [255 * r, 255 * g, 255 * b, alpha] : [r, g, b, alpha];
    };
    const over = ([r, g, b, alpha], below) => [r, g, b].map((part, i) => alpha * part + (1 - alpha) * below[i]);
    const linear = (part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const found = [];
    for (const one of document.querySelectorAll('.page *')) {
      const own = [...one.childNodes].some(({nodeType, data}) => nodeType === 3 && data.trim());
      const beside = one.closest('.token-numbers'); // above or beside its token, not on its colour
      if (!own || beside || one.closest(':disabled') || !one.checkVisibility({visibilityProperty: true})) continue;
      const styles = [];
      for (let around = one; around; around = around.parentElement) styles.unshift(getComputedStyle(around));
      const ground = styles.reduce((below, {backgroundColor}) => over(parts(backgroundColor), below), [255, 255, 255]);
      const opacity = styles.reduce((product, style) => product * style.opacity, 1);
      const [r, g, b, alpha] = parts(styles.at(-1).color);
      const [dark, light] = [over([r, g, b, alpha * opacity], ground), ground].map(luminance).sort((x, y) => x - y);
      const contrast = (light + 0.05) / (dark + 0.05);
      if (contrast < 4.5) found.push(`${contrast.toFixed(1)} ${one.className}: ${one.textContent.slice(0, 60)}`);
    }
    return found;
"""
"""Texts with a contrast below 4.5 : 1 (WCAG 2)."""

ROOM = """
    const height = (selector) => document.querySelector(selector).getBoundingClientRect().height;
    const middle = (one) => {
      const {top, bottom} = one.getBoundingClientRect();
      return (top + bottom) / 2;
    };
    const shown = [...document.querySelectorAll('.bar button, .bar select, .bar input')].filter((one) => one.checkVisibility());
    const middles = shown.map(middle);
    return [height('.view') / innerHeight, Math.max(...middles) - Math.min(...middles), height('.bar')];
"""  # noqa: E501
"""Script that returns the share of the view in the height of the tab, by how many pixels the controls of the bar are
not on one line, and the height of the bar."""

BARS = """
    const bars = [...document.querySelectorAll('.bar-room .bar')];
    return bars.map((bar) => [bar.getBoundingClientRect().width, (parseFloat(bar.style.width) / 100) * bar.parentElement.clientWidth]);
"""  # noqa: E501
"""Script that returns the width of each bar of a view, and the one that its number demands, in pixels."""

PLACES = """
    const place = ({left, top}) => [Math.round(left), Math.round(top)];
    return [...document.querySelectorAll('.view .token')].map((one) => place(one.getBoundingClientRect()));
"""


@pytest.fixture(params=SIZES.values(), ids=SIZES)
def sized(views: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Return the open tab in a browser window of each size, of which TensorBoard takes the upper 64 pixels."""
    yield from resized(views, *request.param)


@pytest.fixture
def low(views: Page) -> Iterator[Page]:
    """Return the open tab in a window that is too low for what the views say about a selected word."""
    yield from resized(views, 1024, 560)


def resized(page: Page, width: int, height: int) -> Iterator[Page]:
    """Set the size of the page, which is that of a window without its frame."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.wait(f"return parent.innerWidth === {width}")
    yield page
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.enter()


def open_view(page: Page, view: str, **state: Any) -> None:
    """Show a view, with everything that it loads afterwards."""
    page.show(**state, view=view)
    if view in DRAWN:
        page.wait(f"return {DRAWN[view]}")


def test_bars_are_as_long_as_their_numbers(views: Page) -> None:
    """Guards against small numbers that all have the same bar: bars share a style with those of other views."""
    open_view(views, "pair", **TEXT, token="r3")
    bars = views.driver.execute_script(BARS)
    assert min(wanted for _, wanted in bars) < 15, "one of them is short"
    assert [(drawn, wanted) for drawn, wanted in bars if abs(drawn - wanted) > 1.1] == []


def test_nothing_is_cut_off(sized: Page) -> None:
    """Guards against a page wider than its window; against names, numbers and buttons that are cut at its edge; and
    against display options that open to the left of a button at the left edge."""
    for view, state in product(VIEWS, (PROBE, TRANSLATION)):
        open_view(sized, view, **state, token="r3", heads="0,1" if view == "lines" else "", underline="strength")
        assert sized.driver.execute_script(CUT) == [], view
    sized.show(**TRANSLATION)
    sized.click(".fold-button")
    box = "return document.querySelector('.fold-body').getBoundingClientRect().toJSON()"
    panel = sized.driver.execute_script(box)
    width, height = sized.driver.execute_script("return [innerWidth, innerHeight]")
    assert panel["width"] > 200
    assert panel["left"] >= 0
    assert panel["right"] <= width
    assert panel["bottom"] <= height
    assert sized.driver.execute_script(CUT) == []
    sized.click(".fold-button")


@pytest.mark.parametrize("run", ["evaluated", "translation"])
def test_the_view_has_seven_tenths_of_the_height(views: Page, run: str) -> None:
    """Guards against controls that leave little room for what they control, in a common window of 1,280 x 800."""
    for page in resized(views, 1280, 800):
        for view in VIEWS:
            page.load(f"#attention&p.attention.run={run}&p.attention.view={view}")
            page.wait(f"return {DRAWN.get(view, 'true')}")
            share, off, height = page.driver.execute_script(ROOM)
            assert share >= 0.7, view
            assert off < 3, view
            assert height < 45, view
            assert page.driver.execute_script(CUT) == [], view


def test_display_options_stay_open(views: Page) -> None:
    """Guards against options that close at each click, at another view, or when the page is opened again."""
    views.show(**TRANSLATION)
    assert not views.find(".fold-body").is_displayed()
    views.click(".fold-button")
    assert "options=true" in views.hash
    views.click(".fold-body input[type=checkbox]")
    views.click("#tab-sentence")
    assert views.find(".fold-body").is_displayed()
    views.load(views.hash)
    assert views.find(".fold-body").is_displayed()
    assert views.find(".fold-body input[type=checkbox]").is_selected()
    assert views.find(".fold-button").get_attribute("aria-expanded") == "true"
    views.click(".fold-button")
    assert not views.find(".fold-body").is_displayed()
    assert "options" not in views.hash


def test_text_can_be_read_in_both_themes(views: Page) -> None:
    """Guards against pale words, and white numbers on pale colours."""
    for dark in (False, True):
        views.driver.execute_script("parent.document.body.classList.toggle('dark-mode', arguments[0])", dark)
        views.wait(f"return document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")
        for view, state in zip(VIEWS, cycle((TEXT, TRANSLATION)), strict=False):
            open_view(views, view, **state, token="r3", heads="0,1" if view == "lines" else "")
            assert views.driver.execute_script(FAINT) == [], (view, dark)


def test_selecting_a_word_moves_no_word(low: Page) -> None:
    """Guards against text that is broken into other lines as soon as what is beside it needs a scroll bar."""
    low.show(**PROBE, view="sentence")
    before = low.driver.execute_script(PLACES)
    assert len({top for _, top in before}) > 1, "several lines"
    for chosen in ("r8", "r11", "r25"):
        low.show(**PROBE, view="sentence", token=chosen)
        low.driver.execute_script("document.querySelector('.view').scrollTop = 0")
        assert low.driver.execute_script(PLACES) == before, chosen


def test_numbers_of_several_heads_fit_beside_their_words(sized: Page) -> None:
    """Guards against numbers left of the drawing, where no scroll bar reaches them."""
    sized.show(**PROBE, view="lines", layout="columns", heads="0,1,2,3", token="c1", top=12)
    sized.wait("return document.querySelectorAll('.sheet-content .token-numbers > *').length > 30")
    script = """
        const {left} = document.querySelector('.sheet-content').getBoundingClientRect();
        const all = [...document.querySelectorAll('.token-numbers > *')];
        return [all.length, all.filter((one) => one.getBoundingClientRect().left < left).map((one) => one.textContent)];
    """
    count, outside = sized.driver.execute_script(script)
    assert count > 30
    assert outside == []


def test_heads_rollout_and_labels_fit_beside_the_view(sized: Page) -> None:
    """Guards against a column of the rollout outside the list of heads, and “coref+” without its plus."""
    sized.show(**PROBE)
    assert sized.texts(".tile[data-layer='0'] .tag")[:4] == ["coref+", "induct+", "dupl", "first"]
    script = """
        const {right} = document.querySelector('.tiles').getBoundingClientRect();
        const tiles = [...document.querySelectorAll('.tiles > *')];
        const outside = tiles.filter((one) => one.getBoundingClientRect().right > right + 0.5);
        const named = [...document.querySelectorAll('.edge, .tag')].filter((one) => one.scrollWidth > one.clientWidth);
        return [...outside, ...named].map(({outerHTML}) => outerHTML);
    """
    assert sized.driver.execute_script(script) == []


def test_the_line_below_the_map_is_a_sentence_for_a_full_stop(views: Page) -> None:
    """Guards against “. attends to: . .17”, which nobody can read, and columns that list rows of weight 0."""
    for chosen, sentence in (
        ("c8", "“.” is attended to by “.” .11."),
        ("r8", "“.” attends to “</s>” .11, “Kate” .11, “hid” .11, “her” .11, “pen” .11, “.” .11 and 3 more."),
    ):
        views.show(**TEXT, token=chosen)
        assert views.text(".readout") == sentence
    views.show(**TRANSLATION, token="r5", against="step:step_00000100")
    assert views.text(".readout").startswith("A minus B: “。” attends to “.” .88, “")


def test_fingers_find_every_control(views: Page) -> None:
    """Guards against buttons of 16 pixels on a touch screen."""
    views.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        views.wait("return matchMedia('(pointer: coarse)').matches")
        for view in VIEWS:
            open_view(views, view, **TEXT, token="r3")
            script = """
                const controls = '.page :is(button:not(.token), select, summary, input, textarea)';
                return [...document.querySelectorAll(controls)]
                  .filter((one) => one.checkVisibility({visibilityProperty: true}))
                  .filter((one) => Math.min(one.offsetWidth, one.offsetHeight) < 24)
                  .map((one) => one.outerHTML.slice(0, 100));
            """
            assert views.driver.execute_script(script) == [], view
    finally:
        views.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
