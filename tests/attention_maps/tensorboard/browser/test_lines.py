"""The lines view in a browser."""

from __future__ import annotations

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.known import CROSS, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, numbers, slide, token


def test_every_row_has_as_many_lines_as_chosen(views: Page) -> None:
    """Guards against a control that changes the number but not the drawing, and lines of weight 0."""
    views.show(**TRANSLATION, view="lines", top=1)
    assert views.text(".view-note").startswith("7 lines, the largest weight 1.")
    few = views.picture(".lines-view canvas")
    slide(views, "number of lines", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "top=3" not in views.hash  # three is what a link need not say
    expected = sum(min(3, sum(weight > 0 for weight in row)) for row in CROSS)
    assert views.text(".view-note").startswith(f"{expected} lines")
    assert views.picture(".lines-view canvas") != few


def test_rows_can_have_the_lines_that_hold_a_share_of_their_attention(views: Page) -> None:
    """Guards against a fraction of lines instead of weights."""
    views.show(**TRANSLATION, view="lines")
    views.click(".segments button[value=mass]")
    assert "mass=0.8" in views.hash
    # .75 + .25, .5 + .25 + .25, .5 + .25 + .25, .5 + .25 + .25, .875, 1, 1
    assert views.text(".view-note").startswith(f"{2 + 3 + 3 + 3 + 1 + 1 + 1} lines")
    slide(views, "number of lines", Keys.ARROW_LEFT)
    assert "mass=0.75" in views.hash
    assert views.text(".view-note").startswith(f"{1 + 2 + 2 + 2 + 1 + 1 + 1} lines")


def test_a_clicked_token_shows_only_its_lines_and_their_numbers(views: Page) -> None:
    """Guards against numbers at the wrong end, and one direction only."""
    views.show(**TRANSLATION, view="lines")
    views.click(token("r3"))
    assert "token=r3" in views.hash
    assert numbers(views) == {"c0": ".50", "c1": ".25", "c6": ".25"}
    assert views.text(".view-note").startswith("3 lines")
    views.click(token("c0"))
    assert numbers(views) == {"r0": ".75", "r3": ".50"}
    views.click(token("c0"))
    assert "token=&" in f"{views.hash}&"
    ActionChains(views.driver).move_to_element(views.find(token("r0"))).perform()
    assert numbers(views) == {"c0": ".75", "c3": ".25"}, "pointing at a token is enough"
    ActionChains(views.driver).move_to_element(views.find(".view-note")).perform()
    assert numbers(views) == {}
    middle = """
        const box = (id) => document.querySelector(`[data-token=${id}]`).getBoundingClientRect();
        const stage = document.querySelector('.sheet-scroller').getBoundingClientRect();
        const [from, to] = [box(arguments[0]), box(arguments[1])];
        return [(from.right + to.left) / 2 - stage.left, (from.top + from.bottom + to.top + to.bottom) / 4 - stage.top];
    """
    views.show(**TRANSLATION, view="lines", top=1)
    x, y = views.driver.execute_script(middle, "r0", "c0")
    assert views.hover(".sheet-scroller", x, y)[:2] == ["エミは → Emi", "head 0: 0.7500"]


def test_several_heads_lie_over_one_another_in_their_own_colours(views: Page) -> None:
    """Guards against overlaid heads that cannot be told apart, or whose numbers are mixed up."""
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
    """Guards against Japanese texts with one line per character (bertviz#18)."""
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
    """Guards against tokens that cannot be reached by keyboard, and keys that also change step or layer."""
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
    assert "token=&" in f"{views.hash}&"


def test_lines_of_a_difference_tell_more_from_less(views: Page) -> None:
    """Guards against a difference whose negative lines look like positive ones."""
    views.show(**TRANSLATION, view="lines", against="step:step_00000100", token="r0")
    assert "dashed for negative" in views.text(".view-note")
    assert numbers(views)["c0"] == ".63"
    assert numbers(views)["c1"] == "−.13"
