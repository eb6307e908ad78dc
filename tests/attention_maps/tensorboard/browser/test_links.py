"""The state of the tab in its URL: links restore it, and no link breaks the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from attention_maps.command_line.export import ExportSettings, export
from tests.attention_maps.tensorboard.browser.page import Page, link

CROSS = {"run": "translation", "recording": "step_00000300", "kind": "cross", "layer": 0, "head": 0}
FEWER = """
    const done = arguments[arguments.length - 1];
    const text = (piece) => ({reads: {pieces: [piece]}, source: null});
    const kinds = {decoder: {layers: 1, heads: 1}};
    const source = {
      isFile: true,
      index: async () => ({runs: {gpt: {steps: [1, 2]}}}),
      meta: async (run, name) => ({kinds, samples: name === "step_00000001" ? [text("a")] : [text("a"), text("b")]}),
      tensor: async () => ({numbers: Float32Array.of(1), shape: [1, 1, 1]}),
    };
    const place = {run: "gpt", recording: "step_00000002", sample: 1, kind: "decoder", values: false};
    import("/data/plugin/attention/static/core/pairs.js")
      .then(({loadPair}) => loadPair(source, place, [0], [0]))
      .then(({steps}) => done(steps), (error) => done(error.message));
"""
"""Script that returns the steps of a page for the second example, which the first step did not record."""


def test_a_link_shows_the_same_again(page: Page) -> None:
    """Guards against state that is missing from the URL."""
    page.show(**CROSS, options=True)
    page.choose("example", page.texts(f"#{page.labelled('example')} option")[1])
    page.click(".tile[data-layer='1'][data-head=max]")
    page.click(".fold-body button[value=reads]")
    page.click(".fold-body input[type=checkbox]")
    page.click(".panel-head button[value=score]")
    page.find(f"#{page.labelled('gamma')}").send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.press("]", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, "[", "[")
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    page.settle()
    seen = [".frame-name", ".frame-detail", ".readout", ".tiles", ".step-title", f"#{page.labelled('gamma')} + output"]
    before = [page.text(selector) for selector in seen]
    picture = page.picture(".cells")
    assert "gamma" in page.hash
    page.load(page.hash)
    assert [page.text(selector) for selector in seen] == before
    assert page.picture(".cells") == picture
    assert page.find(".fold-body input[type=checkbox]").is_selected()


@pytest.mark.parametrize("view", ["map", "lines", "prediction", "curves"])
def test_malformed_links_fall_back_to_defaults(page: Page, view: str) -> None:
    """Guards against a broken page for malformed links or links of other versions."""
    wrong = {
        "sample": "9e99",
        "layer": "-7",
        "head": "constructor",
        "rows": "x",
        "kind": "__proto__",
        "gamma": "-1",
        "scale": "x",
        "top": "-3",
        "mass": "7",
        "token": 'r1"]',
        "heads": "x,0,00,77",
        "layout": "x",
        "underline": "x",
        "sort": "x",
        "readout": "x",
        "threshold": "nan",
        "averaged": "x",
        "paper": "x",
        "measure": "constructor",
        "scope": "x",
        "order": "x",
        "against": "x",
        "unknown": "1",
    }
    page.show(run="translation", recording="step_00000300", view=view, **wrong)
    compares = view not in ("curves", "prediction")
    assert page.text(".message") == ("Run x has no recorded steps." if compares else "")
    expected = (
        "next token · all parts of the model" if view == "prediction" else "cross-attention · layer 0 · mean of 3 heads"
    )
    assert page.text(".frame-name") == expected
    assert not page.driver.find_elements("css selector", ".nothing:not([hidden])")
    page.show(**CROSS, view=view, token="r999")
    assert page.text(".frame-name").endswith("layer 0 · head 0")


def test_addresses_of_former_views_lead_to_their_new_place(page: Page) -> None:
    """Guards against bookmarks and links in notebooks that end at the map."""
    for old, tab, there in (
        ({"view": "strength"}, "Sentence", "strength"),
        ({"view": "sentence", "losses": True}, "Sentence", "loss"),
        ({"view": "steps"}, "Story", "logarithmic"),
        ({"view": "lines"}, "Map", "lines"),
        ({"view": "circuits"}, "Prediction", "the weights alone"),
    ):
        page.load(**CROSS, **old)
        assert page.text("[role=tab][aria-selected=true]") == tab
        assert there in page.texts(":is(.form, .controls-of-view) button[aria-pressed=true]")


def test_missing_recording_in_a_link_is_reported(page: Page) -> None:
    """Guards against showing a different step than the link names without a message."""
    page.show(**CROSS | {"recording": "step_00000310"})
    assert page.text(".step-title") == "step 300"
    assert page.text(".message") == "This run has no recording of step 310 (any more); showing step 300."
    page.show(**CROSS | {"run": "nowhere"})
    assert page.text(".message").startswith("There is no run nowhere with recordings; showing ")
    page.show(**CROSS)
    assert not page.find(".message").is_displayed()


def test_a_step_that_an_exported_page_does_not_contain_is_said(page: Page, logdir: Path, tmp_path: Path) -> None:
    """Guards against links of the story, whose curves hold all steps, that seem to lead to a recording that was
    deleted."""
    file = tmp_path / "page.html"
    export(str(logdir / "translation"), ExportSettings(to=str(file), step="300"), [])
    page.open()
    page.driver.get(f"file://{file}{link({'run': 'translation', 'recording': 'step_00000100'})}")
    page.settle()
    assert page.text(".step-title") == "step 300"
    assert page.text(".message") == "This exported page does not contain step 100; showing step 300."


def test_the_pair_of_an_exported_page_leaves_out_steps_without_the_example(page: Page) -> None:
    """Guards against a page that cannot be drawn because an earlier step recorded fewer examples."""
    assert page.driver.execute_async_script(FEWER) == [2]
