"""Recordings whose names, labels and tokens are HTML and scripts: everything is shown as text, nothing is executed."""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver import ActionChains

from attention_maps.command_line.export import ExportSettings, export
from attention_maps.files import store
from tests.attention_maps.tensorboard.browser.hostile import ATTACKS, RUN, hostile_recording
from tests.attention_maps.tensorboard.browser.page import Page, token
from tests.attention_maps.tensorboard.browser.test_odd_recordings import VIEWS

MADE = """
    const made = 'script:not([src]), img, iframe, [onerror], [onload], [onmouseover], [onfocus], [href^="javascript:"]';
    const ours = (node) => ['application/json', 'module'].includes(node.type)
      || (node.textContent.startsWith('if (!location.hash)') && !node.textContent.includes('<'));
    return [...document.querySelectorAll(made)].filter((node) => !ours(node)).map(({outerHTML}) => outerHTML);
"""
"""Script that lists what a text has become: elements and handlers other than those of an exported page."""

HERE = {"run": RUN, "recording": "step_00000200", "layer": 0, "head": 0}


def check(page: Page) -> None:
    """Fail if a text has become an element or a handler, or none is shown."""
    assert page.driver.execute_script(MADE) == []
    assert page.driver.execute_script("return document.body.textContent.includes('top.attack')")
    assert not page.driver.execute_script("return top.attack")


def test_every_view_shows_scripts_as_text(page: Page) -> None:
    """Guards against names, labels, tokens and predictions that are inserted as HTML, in any view."""
    for view in VIEWS:
        for kind, name in (("cross", "r2"), ("encoder", "r3")):
            page.show(**HERE, view=view, kind=kind, token=name, merge=kind == "cross")
            check(page)
    page.show(**HERE, view="map", kind="cross", against=f"step:{ATTACKS[0]}")
    check(page)
    page.show(**HERE, view="map", kind="cross", against=f"run:{RUN}")
    check(page)
    page.show(run=RUN, recording="generated_00001", view="sentence", kind="cross")
    check(page)
    page.show(run=ATTACKS[0], recording=ATTACKS[0], kind=ATTACKS[0], view=ATTACKS[0], token=ATTACKS[0])
    check(page)


def test_lists_and_tooltips_show_scripts_as_text(page: Page) -> None:
    """Guards against HTML in what appears on demand: the list of runs, tooltips and the measures to colour by."""
    page.show(**HERE, kind="cross", view="map")
    assert page.hover(".cells", 300, 200)
    check(page)
    page.show(**HERE, kind="cross", view="sentence")
    ActionChains(page.driver, duration=0).move_to_element(page.find(token("r2"))).perform()
    check(page)
    page.find(f"#{page.labelled('run')}").click()
    assert RUN in [entry.get_attribute("title") for entry in page.driver.find_elements("css selector", ".list-entry")]
    check(page)


def test_what_a_recording_says_of_its_model_is_text(page: Page) -> None:
    """Guards against a title, data or a licence that is inserted as HTML."""
    page.show(**HERE, kind="cross", view="map")
    page.driver.execute_script("document.querySelector('.about').open = true")
    said = page.texts(".about dd")
    assert said[:4] == list(ATTACKS[:4])
    assert said[5] == ATTACKS[5]
    check(page)
    page.driver.execute_script("document.querySelector('.about').open = false")


def test_an_exported_page_shows_scripts_as_text(page: Page, tmp_path: Path) -> None:
    """Guards against texts that end the <script> in which they are embedded, or the title. TensorBoard forbids inline
    scripts; this page cannot."""
    store.save(hostile_recording(100), tmp_path / RUN)
    export(str(tmp_path / RUN), ExportSettings(to=str(tmp_path / "page.html")), [])
    page.open()
    page.driver.get((tmp_path / "page.html").as_uri())
    page.settle()
    check(page)
    assert page.driver.title.startswith("script> · step 100")
    page.driver.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", ATTACKS[0])
    assert len(page.driver.execute_script(MADE)) == 1, "the check must find what is not text"
    page.wait("return top.attack")
