"""Recordings that other programs make, as described in docs/attention.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
    "strength": "contains no activation strength",
    "alignment": "a GPT has only one",
    "curves": "entropy",
    "steps": "step 10",
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
    shown = {}
    for view in EXPECTED:
        page.show(run="other", view=view, recording="step_00000020", layer=1, head=2)
        page.wait(READY)
        wait_for(page, ".view", EXPECTED[view])
        shown[view] = page.text(".view")
        assert page.text(".message") == ""
        page.click("#tab-map")
    assert {view for view, text in EXPECTED.items() if text not in shown[view]} == set()
    assert len(tabs) == len(EXPECTED), "a new view is missing here"
    failed = [entry["message"] for entry in page.driver.get_log("browser") if "Uncaught" in entry["message"]]
    assert not failed
