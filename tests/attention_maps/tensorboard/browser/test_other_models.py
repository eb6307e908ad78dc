"""Recordings that other programs make, as described in docs/attention.md."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from attention_maps.files import store
from attention_maps.record.arrays import recording_of_arrays
from tests.attention_maps.tensorboard.browser.conftest import Open
from tests.attention_maps.tensorboard.browser.page import READY, wait_for
from tests.conftest import ROOT

EXPECTED = {
    "story": "layer 1 · head 3",
    "map": "masked: later tokens",
    "lines": "lines, the largest weight",
    "sentence": "Shade: mean attention",
    "pair": "From “",
    "prediction": "does not contain the contributions to predictions",
    "ask": "checkpoint",
    "circuits": "This run has no checkpoint",
    "alignment": "a GPT has only one",
    "curves": "entropy",
}
"""What each view shows of maps alone."""


def test_a_script_of_forty_lines_shows_in_every_view(open_folder: Open, tmp_path: Path) -> None:
    """Guards the tab against assumptions about our own models: views without data must say so, not fail."""
    page_text = (ROOT / "docs/attention.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"## Maps of other models.*?```python\n(.*?)```", page_text, re.DOTALL)
    assert len(script.splitlines()) <= 40
    light = script + "\nimport sys\nassert 'torch' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", light], cwd=tmp_path, check=True, timeout=60)
    page = open_folder(tmp_path / "runs")
    page.load(run="other")
    tabs = page.texts("[role=tab]")
    texts = {}
    for view in EXPECTED:
        page.show(run="other", view=view, recording="step_00000020", layer=1, head=2)
        page.wait(READY)
        wait_for(page, ".view", EXPECTED[view])
        texts[view] = page.text(".view")
        assert page.text(".message") == ""
        page.click("#tab-map")
    assert {view for view, text in EXPECTED.items() if text not in texts[view]} == set()
    assert len(tabs) == len(EXPECTED) - 2, "a new view is missing here"
    failed = [entry["message"] for entry in page.driver.get_log("browser") if "Uncaught" in entry["message"]]
    assert not failed


ENCODER = {
    "story": "layer 11 · head 0",
    "map": "Zoom with the wheel",
    "lines": "lines, the largest weight",
    "sentence": "No gold antecedents are known for this text.",
    "pair": "From “",
    "prediction": "An encoder predicts no next tokens.",
    "ask": "checkpoint",
    "circuits": "This run has no checkpoint",
    "alignment": "Rows are labelled by their own token.",
    "curves": "layer 11",
}
"""What each view shows of the 6th and 12th layer of an encoder alone, as of BERT."""


def test_chosen_layers_of_an_encoder_alone(open_folder: Open, tmp_path: Path) -> None:
    """Guards against an encoder that is shown as the source of something, and against misnumbered layers."""
    words = ["[CLS]", "▁Emi", "▁likes", "▁app", "les", "[SEP]"]
    for step in (0, 10):
        weights = np.random.default_rng(step).dirichlet(np.ones(6), size=(2, 3, 6))
        recording = recording_of_arrays(weights, words, step=step)
        store.save(replace(recording, layer_numbers={"encoder": (5, 11)}), tmp_path / "runs" / "bert")
    page = open_folder(tmp_path / "runs")
    page.load(run="bert", recording="step_00000010", layer=1, head=2)
    tiles = [tile.get_attribute("aria-label") for tile in page.driver.find_elements("css selector", ".tile")]
    assert tiles[0] == "layer 5 head 0"
    assert "layer 11 head 2" in tiles
    assert {"L5", "L11"} <= set(page.texts(".tiles .edge"))
    texts = {}
    for view in ENCODER:
        page.show(run="bert", view=view, recording="step_00000010", layer=1, head=2)
        page.wait(READY)
        wait_for(page, ".view", ENCODER[view])
        texts[view] = page.text(".view")
        assert page.text(".message") == ""
        assert view == "alignment" or "source" not in texts[view].lower()
        page.click("#tab-map")
    assert "layer 11 · head 2" in page.text("body")
    assert not page.find("body").find_elements("xpath", "//button[.='without this head' and not(@hidden)]")
    failed = [entry["message"] for entry in page.driver.get_log("browser") if "Uncaught" in entry["message"]]
    assert not failed
