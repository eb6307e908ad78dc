"""The list of runs in a browser, with a hundred runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys

from attention_maps.files import store
from tests.attention_maps.tensorboard.browser.page import Page
from tests.attention_maps.tensorboard.browser.recordings import translation
from tests.attention_maps.tensorboard.conftest import serving

NEWEST = 42
ENTRY = "dialog[open] .list-entry"
HEADINGS = "return [...document.querySelectorAll('dialog[open] .list-group')].map((node) => node.textContent)"
CUT_OFF = """
    return [...document.querySelectorAll('dialog[open] .list-text')]
      .filter((node) => node.scrollWidth > node.clientWidth || node.getBoundingClientRect().right > innerWidth).length
"""


def name(number: int) -> str:
    """Return a run name as long as those of sweeps; the numbers are not padded."""
    return f"sweep-{number % 2}/translate-primer-lr-{number}-warmup-200-label-smoothing-0.1-seed-{number % 3}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a TensorBoard for a hundred runs with three steps each, in two folders."""
    folder = tmp_path_factory.mktemp("many")
    for step in (100, 200, 300):
        store.save(translation(step), folder / "one")
    for number in range(100):
        shutil.copytree(folder / "one", folder / "logs" / name(number))
    os.utime(store.path(folder / "logs" / name(NEWEST), 300))
    with serving("--logdir", folder / "logs") as address:
        yield address


@pytest.fixture
def page(driver: Chrome, address: str) -> Page:
    """Open the tab without a state."""
    page = Page(driver, address)
    page.load("#attention&p.attention.view=map&p.attention.options=true")
    return page


def chosen(page: Page) -> str:
    """Return the full name of the run on its button."""
    return page.find(f"#{page.labelled('run')}").get_attribute("textContent") or ""


def test_one_of_a_hundred_runs_is_found_by_parts_of_its_name(page: Page) -> None:
    """Guards against a list of names that are cut off before they differ, in the order 1, 10, 100, 2."""
    assert chosen(page) == name(NEWEST), "the run that recorded last"
    page.find(f"#{page.labelled('run')}").click()
    listed = page.driver.execute_script(f"return [...document.querySelectorAll('{ENTRY}')].map((node) => node.title)")
    assert listed == [name(number) for number in (*range(0, 100, 2), *range(1, 100, 2))]
    assert page.driver.execute_script(HEADINGS) == ["sweep-0", "sweep-1"]
    assert page.driver.execute_script(CUT_OFF) == 0
    assert page.texts(ENTRY)[0].split() == [name(0).partition("/")[2], "step", "300"]

    ActionChains(page.driver).send_keys("SEED-1 lr-7").perform()  # 70, 76, 7, 73, 79
    assert page.text("dialog[open] output") == "5 of 100"
    assert page.driver.execute_script(HEADINGS) == ["sweep-0", "sweep-1"]
    ActionChains(page.driver).send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER).perform()
    page.wait(f"return parent.location.hash.includes({name(76).rpartition('/')[2]!r})")
    page.settle()
    assert chosen(page) == name(76)
    assert not page.driver.find_elements("css selector", "dialog[open]")
    page.press(Keys.ARROW_LEFT)
    assert page.text(".step-title") == "step 200"


def test_a_search_without_a_match_changes_nothing(page: Page) -> None:
    """Guards against Enter that chooses an invisible entry, and keys of the list that also move the steps."""
    before = page.hash
    page.find(f"#{page.labelled('compare with')}").click()
    assert page.text("dialog[open] output") == "103"  # nothing, three steps, 99 other runs
    ActionChains(page.driver).send_keys("no such run", Keys.ENTER, Keys.ARROW_DOWN, Keys.ARROW_LEFT).perform()
    assert page.text("dialog[open] .list-entries") == "no match"
    while page.driver.find_elements("css selector", "dialog[open]"):  # Escape first clears the filter
        ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    assert page.hash == before
    page.choose("compare with", name(57))
    assert f"B = {name(57)} step 300" in page.text(".legend-line")
