"""The exported page: the tab's scripts and recordings in a single file."""

import base64
import json
import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_maps.__main__ import guarded
from attention_maps.command_line.page import STATIC
from attention_maps.command_line.page import page as page_of
from attention_maps.command_line.page_data import thinned
from attention_maps.files import store
from attention_maps.record.recording import Recording
from attention_maps.tensorboard.recording_reader import RecordingReader


class Page(HTMLParser):
    """Collect the scripts by type or number, and every URL in an attribute, as a browser does."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.addresses: list[str] = []
        self.policy = self.style = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        self.addresses += [attributes[key] for key in ("src", "href", "action", "data", "poster") if key in attributes]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        self._in = attributes.get("id") or attributes.get("type") or "plain" if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.style += data
        if self._in:
            self.scripts[self._in] = self.scripts.get(self._in, "") + data

    @property
    def archive(self) -> dict[str, Any]:
        return json.loads(self.scripts["chumoku-archive"])


@pytest.fixture
def run(lesson: Recording, tmp_path: Path) -> Path:
    """Return a run with six steps and a generated text; its two samples differ."""
    folder = tmp_path / "日本 <&x"
    (sample,) = lesson.samples
    values = {key: np.ones((2, weights.shape[2]), np.float16) for key, weights in sample.weights.items()}
    first = replace(sample, values=values, rollout={"decoder": np.eye(4, dtype=np.float16)})
    second = replace(first, name="</script><script>alert(1)</script>")
    for step in range(0, 600, 100):
        measures = {"entropy": {"cross": [[step / 8, 1.0], [1.0, 1.0]]}}
        store.save(Recording(step, (first, second), measures), folder)
    store.save_generated(lesson, folder)
    return folder


def exported(run: Path, *settings: str) -> Page:
    to = run.parent / "page.html"
    assert guarded(["export", str(run), f"to={to}", "overwrite=true", *settings]) == 0
    text = to.read_text(encoding="utf-8")
    assert text.startswith('<!doctype html><html lang="en">')
    return Page(text)


def test_archive_is_lossless(run: Path) -> None:
    """Guards against wrong values or names of tensors in base64."""
    archive = exported(run, "step=500").archive
    sample, _ = store.load(store.path(run, 500)).samples
    expected = {
        f"{kind}|{layer}|{what}": array
        for what, arrays in (("weights", sample.weights), ("norms", sample.norms), ("values", sample.values))
        for (kind, layer), array in arrays.items()
    }
    expected |= {f"{kind}||rollout": array for kind, array in sample.rollout.items()}  # of all layers
    assert len(expected) == 6 * 3 + 1
    for number in (0, 1):
        start = f"{run.name}|step_00000500|{number}|"
        tensors = {key.removeprefix(start): value for key, value in archive["tensors"].items() if key.startswith(start)}
        assert tensors.keys() == expected.keys()
        for key, array in expected.items():
            assert tensors[key]["shape"] == list(array.shape)
            assert base64.b64decode(tensors[key]["data"]) == array.tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_a_run_whose_name_is_no_text_is_named_as_in_the_tab(lesson: Recording, tmp_path: Path) -> None:
    """Guards against run names that cannot be part of a URL."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    store.save(lesson, folder)
    page = exported(folder)
    assert page.archive["index"]["runs"] == {"caf\ufffd": {"steps": [1000], "generated": []}}
    assert "p.attention.run=caf%EF%BF%BD&" in page.scripts["plain"]


def test_steps_without_the_sample_are_left_out(
    lesson: Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against failing on runs resumed with more examples, or with none before, and against counting their
    steps."""
    measures = {"entropy": {kind: [[0.5, 1.0], [1.0, 1.0]] for kind in ("encoder", "decoder", "cross")}}
    for step, count in ((0, 0), (100, 1), (200, 2)):
        store.save(Recording(step, lesson.samples * count, measures), tmp_path)
    for settings, steps in (([], [100, 200]), (["sample=0"], [100, 200]), (["sample=1"], [200])):
        archive = exported(tmp_path, "steps=all", *settings).archive
        assert archive["index"]["runs"][tmp_path.name]["steps"] == steps
        assert f"steps: {len(steps)}, " in capsys.readouterr().out
        assert len(archive["meta"]) == len(steps)
        assert archive["curves"][tmp_path.name]["steps"] == [0, 100, 200]


def test_archive_matches_the_plugin_responses(run: Path) -> None:
    """Guards against differences between the responses of the server and the data of the page."""
    archive = exported(run, "step=500").archive
    path = str(store.path(run, 500))
    meta = json.loads(json.dumps(RecordingReader().meta(path)))
    assert archive["meta"] == {f"{run.name}|step_00000500": {"run": run.name, "recording": "step_00000500", **meta}}
    assert archive["index"]["runs"] == {run.name: {"steps": [500], "generated": []}}
    assert archive["curves"][run.name]["steps"] == list(range(0, 600, 100))  # the whole training


def test_several_steps_and_one_sample_can_be_chosen(run: Path) -> None:
    """Guards against data in the page that was not requested; a selected sample becomes number 0."""
    archive = exported(run, "step=300", "steps=3", "sample=1").archive
    assert archive["index"]["runs"][run.name] == {"steps": [0, 300, 500], "generated": []}
    assert [len(meta["samples"]) for meta in archive["meta"].values()] == [1, 1, 1]
    assert {key.split("|")[2] for key in archive["tensors"]} == {"0"}
    everything = exported(run, "steps=all").archive
    assert everything["index"]["runs"][run.name] == {"steps": list(range(0, 600, 100)), "generated": [1]}
    written = exported(run, "step=generated_00001", "steps=2").archive
    assert written["index"]["runs"][run.name] == {"steps": [0, 500], "generated": [1]}


def test_steps_are_thinned_evenly_and_the_chosen_one_stays() -> None:
    """Guards against dropping the selected step, and including it twice."""
    names = [str(number) for number in range(11)]
    assert thinned(names, "10", 3) == ["0", "5", "10"]
    assert thinned(names, "4", 3) == ["0", "4", "10"]
    assert thinned(names, "4", 1) == ["4"]
    assert thinned(names, "4", 99) == names
    for chosen in names:
        for count in range(1, 12):
            kept_names = thinned(names, chosen, count)
            assert chosen in kept_names
            assert len(set(kept_names)) == count
            assert kept_names == sorted(kept_names, key=int)


def test_the_page_loads_nothing_from_anywhere(run: Path) -> None:
    """Guards against a page that needs the network, or that sends requests."""
    page = exported(run)
    assert page.addresses == []
    assert page.policy.startswith("default-src 'none';")
    for text in (page.scripts["module"], page.style):
        assert set(re.findall(r"(?:https?|wss?)://[^'\"`\s)]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"@import|url\((?!['\"]?data:)|import\.meta|new Worker", text)


def test_every_style_sheet_of_the_tab_comes_along(run: Path) -> None:
    """Guards against missing style sheets, and a style sheet that closes its element."""
    style = exported(run).style
    sheets = [path.read_text(encoding="utf-8") for path in STATIC.rglob("*.css")]
    assert sheets
    assert all(sheet in style for sheet in sheets)


def test_the_script_of_the_page_is_that_of_the_tab(run: Path) -> None:
    """Guards against a module that is left out, and one that the browser would have to import."""
    script = exported(run).scripts["module"]
    assert script.rstrip().endswith("imported('start.js');")
    for path in STATIC.rglob("*.js"):
        assert f"modules['{path.relative_to(STATIC).as_posix()}'] = " in script
    assert not re.search(r"^(?:import|export)\b|\bimport\(", script, re.MULTILINE)


def test_a_module_cannot_end_the_script_element() -> None:
    """Guards against a module whose texts the browser would read as HTML."""
    for text in ("</script>", "</SCRIPT x", "<script", "<!--"):
        with pytest.raises(ValueError, match=re.escape(f"a module contains {text.split()[0]}".rstrip(">"))):
            page_of("title", None, {}, start=f"const text = '{text}';\n")


def test_names_cannot_end_the_script_element(run: Path) -> None:
    """Guards against script injection by a name that contains </script>."""
    page = exported(run)
    assert list(page.scripts) == ["chumoku-archive", "plain", "module"]
    assert "alert(1)" not in page.scripts["plain"] + page.scripts["module"]
    (meta,) = page.archive["meta"].values()
    assert meta["samples"][1]["name"] == "</script><script>alert(1)</script>"


def test_the_page_opens_with_the_map_that_was_chosen(run: Path) -> None:
    """Guards against a page that opens with a different map than the command line selects."""
    page = exported(run, "step=200", "kind=decoder", "layer=-1", "head=1")
    hash_ = json.loads(re.search(r'location\.hash = (".*?")$', page.scripts["plain"])[1])
    assert hash_.startswith("#attention&")
    for part in ("recording=step_00000200", "kind=decoder", "layer=1", "head=1"):
        assert f"p.attention.{part}" in hash_.split("&")


def test_export_names_a_damaged_recording(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a traceback if one of many steps is damaged."""
    store.path(run, 0).write_bytes(b"junk")
    assert guarded(["export", str(run), f"to={run.parent / 'p.html'}", "steps=all"]) == 2
    assert "step_00000000.safetensors" in capsys.readouterr().err
    assert not (run.parent / "p.html").exists()
