"""The answers that a page keeps: as many as TensorBoard's plugin."""

from __future__ import annotations

from typing import Any

import pytest

from attention_maps.command_line.modules import joined, modules_in
from attention_maps.command_line.page import STATIC
from attention_maps.tensorboard.questions import KEPT, LARGEST
from tests.page.conftest import Browser

START = "import {Archive} from './core/archive.js';\nself.Archive = Archive;\n"

ASK = """
(0, eval)(values[0]);
const [, runs, bytes] = values;
const tensors = {'0|decoder|0|weights': {numbers: {byteLength: bytes}, shape: [1]}};
const last = {};
const answered = ({run}, onProgress) => {
  const ids = [1, 2].map((place) => `asked_${String((last[run] ?? 0) + place).padStart(5, '0')}`);
  last[run] = (last[run] ?? 0) + 2;
  const recordings = Object.fromEntries(ids.map((id) => [id, {meta: {id}, tensors}]));
  const answers = ids.map((recording) => ({run, recording}));
  onProgress({written: 'a part of a text'});
  onProgress({answers});
  return {answers, recordings};
};
const recorded = {
  index: {runs: {a: {steps: [3], generated: []}, b: {steps: [], generated: []}}, logdir: ''},
  meta: {'a|step_00000003': {step: 3}},
  tensors: {},
  curves: {},
};
const call = async (method, question, onProgress) => {
  await null; // as a worker, it answers later
  return answered(question, onProgress);
};
const archive = new Archive(recorded, {runs: ['a', 'b'], call});
const shown = [];
for (const run of runs) {
  shown.push((await archive.ask({run})).recording);
  await archive.quiet();
}
const listed = (await archive.index()).runs;
const outcome = (promise) => promise.then((found) => found, ({message}) => message);
const dropped = await Promise.all([
  outcome(archive.answered('a', 'asked_00002')),
  outcome(archive.meta('a', 'asked_00002')),
  outcome(archive.tensor('a', 'asked_00002', 0, 'decoder', 0, 'weights')),
]);
const kept = [await archive.meta('a', 'step_00000003'), await archive.answered(runs.at(-1), shown.at(-1))];
await archive.clear('a');
const after = (await archive.index()).runs;
const cleared = [after.a.asked.length, after.b.asked.length];
return {asked: {a: listed.a.asked, b: listed.b.asked}, dropped, kept, cleared};
"""
"""JavaScript for the body of `Browser.run`: asks about runs; an answer has two recordings of some bytes each."""


def asked(browser: Browser, runs: list[str], size: int) -> dict[str, Any]:
    """Return which answers are kept after a question to each of the runs."""
    result: dict[str, Any] = browser.run(ASK, joined("start.js", {**modules_in(STATIC), "start.js": START}), runs, size)
    return result


def test_the_newest_answers_of_all_runs_are_kept(browser: Browser) -> None:
    """Guards against a page that needs more memory with every question, and one that forgets what is shown or was
    recorded in the training."""
    given = asked(browser, ["a", "b"] * KEPT, 1000)
    newest = list(range(2 * KEPT - KEPT // 2 + 1, 2 * KEPT + 1))
    assert given["asked"] == {"a": newest, "b": newest}
    assert given["dropped"][0] == "the answer 'asked_00002' is not kept (any more): ask again"
    assert given["dropped"][1:] == [
        "asked_00002 is not part of this exported page",
        "a|asked_00002|0|decoder|0|weights is not part of this exported page",
    ]
    assert given["kept"][0]["meta"] == {"step": 3}
    assert given["kept"][1]["recording"] == f"asked_{2 * KEPT:05d}"
    assert given["cleared"] == [0, KEPT // 2]


@pytest.mark.parametrize(("size", "pairs"), [(LARGEST // 8, 4), (LARGEST, 1)])
def test_large_answers_are_fewer(browser: Browser, size: int, pairs: int) -> None:
    """Guards against a large model that fills the memory; the newest answer always stays."""
    given = asked(browser, ["a"] * 9, size)
    assert given["asked"]["a"] == list(range(19 - 2 * pairs, 19))
