"""The models of a page run in a worker, also in a page opened from disk, in both browsers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attention_maps.command_line.modules import joined, modules_in
from attention_maps.command_line.page import POLICY
from page.export import worker_script
from tests.page.asked_models import Subject, asked_in, export, make_run
from tests.page.conftest import ENGINE, LONGEST, RUN, Browser

PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<script type="application/json" id="start">{start}</script>
<script type="application/json" id="script">{script}</script>
<script type="module">
{opening}</script>
"""

OPENING = """import {Refused, WorkerClient} from './client.js';
const contentOf = (id) => JSON.parse(document.getElementById(id).textContent);
const start = contentOf("start");
for (const checkpoint of start.checkpoints) {
  checkpoint.weights = new Blob([Uint8Array.from(atob(checkpoint.weights), (letter) => letter.charCodeAt(0))]);
}
const urlOf = (script) => URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
window.clientOf = (script = contentOf("script")) => new WorkerClient(urlOf(script), start);
window.Refused = Refused;
"""
"""The module that gives the tests what they call."""

OUTCOME = """
const outcome = (promise) => promise.then((answer) => ({answer}), (error) => ({
  error: error.message, kind: error instanceof Refused ? 'refused' : error.name,
}));
"""
"""JavaScript: what became of a call, as JSON."""


@pytest.fixture(scope="session")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of a GPT."""
    options = {"layers": 2, "heads": 2, "width": 32, "context": 64}
    return make_run(Subject("gpt", options), trained, tmp_path_factory.mktemp("worker") / "run")


@pytest.fixture
def page(browser: Browser, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return the browser with the page of the run, opened from disk."""
    export(browser, "worker", run)
    start = json.loads((browser.files / "worker.json").read_text())
    for checkpoint in start["checkpoints"]:
        checkpoint["weights"] = encoded((browser.files / checkpoint["weights"]).read_bytes())
    file = tmp_path_factory.mktemp("page") / "page.html"
    opening = joined("opening.js", {"client.js": (ENGINE / "client.js").read_text("utf-8"), "opening.js": OPENING})
    file.write_text(
        PAGE.format(policy=POLICY, opening=opening, start=in_script(start), script=in_script(worker_script())),
        encoding="utf-8",
    )
    browser.driver.get(file.as_uri())
    browser.driver.set_script_timeout(LONGEST)
    yield browser
    browser.driver.get("about:blank")


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def in_script(value: Any) -> str:
    return json.dumps(value).replace("<", "\\u003c")


def run_in(page: Browser, body: str, *values: Any) -> Any:
    """Return what the body of an async function returns in the page."""
    answer = page.driver.execute_async_script(RUN, OUTCOME + body, values)
    assert "error" not in answer, answer["error"]
    return answer["result"]


def test_a_page_from_disk_answers_in_a_worker(page: Browser, run: Path) -> None:
    """Guards against a worker that a browser does not start, and answers that get lost or differ on the way."""
    questions: list[dict[str, Any]] = [
        {"method": "ask", "question": {"run": "x", "text": "Ken runs.", "continue": 4, "removed": [["decoder", 1, 0]]}},
        {"method": "ask", "question": {"run": "x", "text": " "}},
        {"method": "circuits", "question": {"run": "x", "circuit": ["decoder", 1, 1]}},
        {"method": "ask", "question": {"run": "x", "text": "Emi", "temperature": 0.9, "seed": 4, "continue": 12}},
        {"method": "checkpoints", "question": {"run": "x"}},
    ]
    body = """
    const client = clientOf();
    const progress = values[0].map(() => []);
    const outcomes = await Promise.all(values[0].map(({method, question}, place) =>
      outcome(client.call(method, question, (part) => progress[place].push(part)))));
    for (const {answer} of outcomes) {
      for (const {tensors} of Object.values(answer?.recordings ?? {})) {
        for (const key of Object.keys(tensors)) {
          if (!/Float32Array/.test(Object.prototype.toString.call(tensors[key].numbers))) throw new Error(key);
          delete tensors[key].numbers;
        }
      }
    }
    client.stop();
    return outcomes.map((one, place) => ({...one, progress: progress[place]}));
    """
    given = run_in(page, body, questions)
    expected = asked_in(page, "worker", questions)
    for question, there, here in zip(questions, given, expected, strict=True):
        if "refusal" in here:
            assert (there["kind"], there["error"]) == ("refused", here["refusal"]), question
            continue
        for recording in here["result"].get("recordings", {}).values():
            for tensor in recording["tensors"].values():
                del tensor["data"]
        assert there["answer"] == here["result"], question
        assert there["progress"] == here["progress"], question
    assert given[0]["progress"]


def test_a_cancelled_call_is_forgotten(page: Browser) -> None:
    """Guards against late answers, and questions that wait for one that nobody waits for."""
    body = """
    const client = clientOf();
    const question = {text: 'Ken had', continue: 200, temperature: 1, seed: 2};
    const before = await client.call('ask', question);
    const [early, late, queued] = [new AbortController(), new AbortController(), new AbortController()];
    early.abort();
    const refused = await outcome(client.call('ask', question, null, early.signal));
    const progress = [];
    const first = outcome(client.call('ask', question, (part) => {
      progress.push(part);
      if (progress.length === 2) late.abort();
    }, late.signal));
    const second = outcome(client.call('ask', question, null, queued.signal));
    const third = client.call('ask', question);
    queued.abort();
    const outcomes = await Promise.all([first, second]);
    const after = await third;
    client.stop();
    const same = JSON.stringify(before.answers) === JSON.stringify(after.answers);
    return {refused, outcomes, progress: progress.length, same};
    """
    given = run_in(page, body)
    assert given["refused"]["kind"] == "AbortError"
    assert [one["kind"] for one in given["outcomes"]] == ["AbortError", "AbortError"]
    assert given["progress"] == 2
    assert given["same"]


SLOW = """
const before = self.onmessage;
self.onmessage = (event) => {
  if (event.data.argument?.text === 'slow') for (;;);
  before(event);
};
"""


def test_a_worker_that_stays_busy_is_replaced(page: Browser) -> None:
    """Guards against a page that answers nothing any more after one long question."""
    body = """
    const client = clientOf(JSON.parse(document.getElementById('script').textContent) + values[0]);
    const stop = new AbortController();
    const slow = outcome(client.call('ask', {text: 'slow'}, null, stop.signal));
    const next = client.call('ask', {text: 'Ken', continue: 3});
    stop.abort();
    const started = performance.now();
    const written = (await next).answers[0].written.length;
    const waited = performance.now() - started;
    const last = outcome(client.call('ask', {text: 'slow'}));
    client.stop();
    return {slow: await slow, written, waited, last: await last};
    """
    given = run_in(page, body, SLOW)
    assert given["slow"]["kind"] == "AbortError"
    assert given["written"] > 0
    assert given["waited"] >= 450
    assert given["last"]["error"] == "the worker was stopped"


def test_a_worker_that_fails_says_so(page: Browser) -> None:
    """Guards against a question that is never answered."""
    body = """
    const broken = await outcome(clientOf('this is no script').call('checkpoints', {}));
    const client = clientOf();
    const absent = await outcome(client.call('absent', {}));
    const again = await outcome(client.call('checkpoints', {}));
    client.stop();
    return {broken, absent, again};
    """
    given = run_in(page, body)
    assert "the worker of this page failed" in given["broken"]["error"]
    assert "there is no method absent" in given["absent"]["error"]
    assert len(given["again"]["answer"]["checkpoints"]) == 2


def test_joined_modules_see_what_they_import(browser: Browser, tmp_path: Path) -> None:
    """Guards the translation of each form of import and export."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.js").write_text(
        "const hidden = 1;\nexport const one = hidden;\nexport class Two {\n  get value() {\n    return 2;\n  }\n}\n"
        "export function* three() {\n  yield 3;\n}\nexport async function four() {\n  return 4;\n}\n"
    )
    (tmp_path / "a.js").write_text(
        "import {\n  one as first,\n  Two,\n} from './inner/b.js';\nimport * as all from './inner/b.js';\n"
        "const hidden = 10;\nexport const sum = async () =>\n"
        "  hidden + first + new Two().value + [...all.three()][0] + (await all.four());\n"
    )
    (tmp_path / "later.js").write_text(
        "import {sum} from './a.js';\nself.loaded = true;\nexport const more = async () => 1 + (await sum());\n"
    )
    (tmp_path / "worker.js").write_text(
        "import {sum} from './a.js';\nself.loaded = false;\nself.sum = sum;\n"
        "self.sumLater = async () => [self.loaded, await (await import('./later.js')).more(), self.loaded];\n"
    )
    script = joined("worker.js", modules_in(tmp_path))
    assert browser.run("(0, eval)(values[0]); return [await self.sum(), await self.sumLater()];", script) == [
        20,
        [False, 21, True],
    ]
