"""A run in which every text is HTML or a script: the exported page shows all of it as text, in both browsers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from attention_maps.files import store
from configs.errors import UserError
from interop.settings import ExportSettings
from page.export import write_page
from page.tokenizer_data import Proto
from tests.attention_maps.tensorboard.browser.hostile import hostile
from tests.page.test_page import ask, browser, chromium_driver, opened, wait
from training.run_folder.saved_config import load_config, save_config

__all__ = ["browser", "driver"]  # fixtures

driver = chromium_driver

ATTACK = (
    "</script><img src=x onerror=top.attack=1><script>top.attack=1</script>]]>'\"`\u2028;top.attack=1;//<!--<script>"
)
NAME = ATTACK.replace("/", "\\")
"""The same as the name of a folder."""
VIEWS = ("story", "map", "lines", "sentence", "pair", "prediction", "circuits", "ask", "alignment", "curves")
GUARD = """<script>
window.troubles = [];
addEventListener('securitypolicyviolation', ({violatedDirective: directive}) => troubles.push(directive));
addEventListener('error', ({message}) => troubles.push(message));
addEventListener('unhandledrejection', ({reason}) => troubles.push(String(reason)));
</script>
"""
"""Written into the page before anything else: collects what the policy forbids, and errors."""
MADE = """
const made = 'img, iframe, object, svg[onload], [onerror], [onload], [onmouseover], [onfocus], [href^="javascript:"]';
return [...document.querySelectorAll(made)].map(({outerHTML}) => outerHTML);
"""


@pytest.fixture(scope="module")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of a GPT whose folder, settings, tokens, recordings and files have texts that are HTML."""
    folder = tmp_path_factory.mktemp("hostile") / NAME
    shutil.copytree(trained / "runs" / "gpt", folder, symlinks=True)
    config = load_config(folder)
    save_config(
        replace(config, experiment=ATTACK, data=replace(config.data, source="text", path=f"/data/{NAME}.txt")), folder
    )
    model = Proto.FromString((folder / "tokenizer.model").read_bytes())
    for number, piece in enumerate(model.pieces):
        if piece.type == Proto.SentencePiece.NORMAL and len(piece.piece) > 1:
            piece.piece = f"▁{ATTACK}{number}"
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    for step, path in store.steps(folder).items():
        recording = store.load(path)
        samples = [
            replace(
                sample,
                reads=hostile(sample.reads, 0),
                predicts=hostile(sample.predicts, 1),
                predictions=tuple(
                    tuple(one._replace(piece=f"▁{ATTACK}") for one in likely) for likely in sample.predictions
                ),
                name=ATTACK,
            )
            for sample in recording.samples
        ]
        labels = {kind: [[ATTACK for _ in heads] for heads in layers] for kind, layers in recording.labels.items()}
        store.save(replace(recording, step=step, samples=tuple(samples), labels=labels), folder)
    checkpoints = folder / "checkpoints"
    shutil.copytree((checkpoints / "best").resolve(), checkpoints / NAME)
    return folder


def written(run: Path, checkpoint: str, to: Path) -> Path:
    """Write the page of a checkpoint, which notices what is forbidden."""
    write_page([(run, checkpoint)], to, ExportSettings(to=str(to), format="page", licence=ATTACK, title=ATTACK))
    text = to.read_text("utf-8")
    assert "<title>" in text
    to.write_text(text.replace("<title>", f"{GUARD}<title>", 1), "utf-8")
    return to


@pytest.fixture(scope="module")
def page(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its page."""
    return written(run, "best", tmp_path_factory.mktemp("page") / "x.html")


def check(browser: WebDriver) -> None:
    """Fail if a text has become an element, has run or was requested."""
    assert browser.execute_script("return top.attack ?? null") is None
    assert browser.execute_script(MADE) == []
    assert browser.execute_script("return troubles") == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(({name}) => name.slice(0, 5))")
    assert set(loaded) <= {"data:", "blob:"}
    assert logged(browser) == []


def logged(browser: WebDriver) -> list[dict[str, Any]]:
    """Return what Chromium has written to its console since the last call; nothing of Firefox."""
    lines: list[dict[str, Any]] = browser.get_log("browser") if hasattr(browser, "get_log") else []
    return lines


def test_every_text_of_a_run_is_shown_as_text(browser: WebDriver, page: Path, run: Path) -> None:
    """Guards against HTML in names, settings, tokens, labels and questions, which would run with the page's rights."""
    opened(browser, page, view="ask")
    check(browser)
    rows = ask(browser, ATTACK)
    assert any("onerror" in cells[0] for cells in rows), "a token of the tokenizer is shown"
    check(browser)
    for view in VIEWS:
        browser.execute_script(f"location.hash = location.hash.replace(/view=\\w+/, 'view={view}')")
        wait(browser, "return document.querySelector('.page').getAttribute('aria-busy') === 'false'")
        check(browser)
    step = max(store.steps(run).values()).stem
    browser.execute_script(f"location.hash = location.hash.replace(/recording=\\w+/, 'recording={step}')")
    wait(browser, "return document.body.textContent.includes('top.attack')")
    browser.execute_script("document.querySelector('.about').open = true")
    about = browser.find_element(By.CSS_SELECTOR, ".about").text
    assert about.count("onerror=top.attack") >= 3, "data, command and licence"
    assert "onerror" in browser.execute_script("return document.title")
    check(browser)
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=top.attack=1>')")
    wait(browser, "return top.attack")  # what the checks look for does happen
    logged(browser)


def test_a_checkpoint_with_another_name_cannot_be_asked(browser: WebDriver, run: Path, tmp_path: Path) -> None:
    """Guards against HTML in the name of a checkpoint."""
    opened(browser, written(run, NAME, tmp_path / "x.html"), view="ask")
    wait(browser, "return document.querySelector('.ask-status').textContent.includes('the name of a step such as')")
    check(browser)


def test_the_source_of_the_page_has_one_script_after_its_data(page: Path) -> None:
    """Guards against a text that ends the element around it, or keeps it from ending."""
    text = page.read_text("utf-8")
    assert "<!--" not in text
    assert "\u2028" not in text
    assert text.lower().count("<script") == text.lower().count("</script>")
    assert "<img" not in text
    title = text.partition("<title>")[2].partition("</title>")[0]
    assert "onerror" in title
    assert not set(title) & {"<", ">"}, "a text in the title is escaped"


def test_a_recording_of_absurd_size_is_refused_by_name(trained: Path, tmp_path: Path) -> None:
    """Guards against an export that fills the memory, or ends without naming the file."""
    for length, tensor in (
        (2**62, None),
        (33 * 2**20, None),
        (None, {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}),
        (None, {"dtype": "F32", "shape": [2**31], "data_offsets": [0, 0]}),
        (None, {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}),
    ):
        folder = tmp_path / f"run-{length}-{tensor is not None and tensor['shape'][0]}"
        shutil.copytree(trained / "runs" / "gpt", folder, symlinks=True)
        path = max(store.steps(folder).items())[1]
        content = path.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        if tensor:
            header[max(name for name in header if name != "__metadata__")] = tensor
        text = json.dumps(header).encode()
        size = len(text) if length is None else length
        path.write_bytes(size.to_bytes(8, "little") + text)
        with pytest.raises(UserError, match=path.name):
            write_page([(folder, "best")], tmp_path / "x.html", ExportSettings(to="x.html", format="page"))
        assert not (tmp_path / "x.html").exists()
