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
    assert given["dropped"] == ["the answer 'asked_00002' is not kept (any more): ask again"] * 3
    assert given["kept"][0]["meta"] == {"step": 3}
    assert given["kept"][1]["recording"] == f"asked_{2 * KEPT:05d}"
    assert given["cleared"] == [0, KEPT // 2]


@pytest.mark.parametrize(("size", "pairs"), [(LARGEST // 8, 4), (LARGEST, 1)])
def test_large_answers_are_fewer(browser: Browser, size: int, pairs: int) -> None:
    """Guards against a large model that fills the memory; the newest answer always stays."""
    given = asked(browser, ["a"] * 9, size)
    assert given["asked"]["a"] == list(range(19 - 2 * pairs, 19))


SLOW = """
(0, eval)(values[0]);
const waiting = []; // of each question: its number and what its worker does after {answers}
const call = (method, {run, after, whole}, onProgress) => new Promise((resolve, reject) => {
  const ids = [1, 2].slice(whole ? 0 : 1).map((place) => `asked_${String(after + place).padStart(5, '0')}`);
  const answers = ids.map((recording) => ({run, recording}));
  const tensors = {'0|decoder|0|weights': {numbers: {byteLength: 1}, shape: [1]}};
  const recordings = Object.fromEntries(ids.map((id) => [id, {meta: {id}, tensors}]));
  const answer = () => onProgress({answers});
  waiting.push({ids, answer, finish: () => resolve({answers, recordings}), refuse: reject});
});
const archive = new Archive({index: {runs: {a: {steps: []}}}, meta: {}, tensors: {}, curves: {}}, {runs: ['a'], call});
const outcome = (promise) => promise.then((found) => found, (error) => [error.constructor.name, error.message]);
const listed = async () => (await archive.index()).runs.a.asked;
const ask = async (question = {}) => {
  const asking = archive.ask({run: 'a', ...question});
  waiting.at(-1).answer();
  return (await asking).recording;
};
"""
"""JavaScript before the body of `Browser.run`: a model whose worker answers and finishes when it is told to."""


def run_slowly(browser: Browser, body: str, *values: Any) -> Any:
    """Return what the body of an async function returns, after SLOW."""
    return browser.run(SLOW + body, joined("start.js", {**modules_in(STATIC), "start.js": START}), *values)


def test_an_answer_is_there_before_its_maps(browser: Browser) -> None:
    """Guards against a text that is shown only when its maps are computed, which takes as long again."""
    body = """
    const recording = await ask();
    const early = [(await archive.answered('a', recording)).recording, await listed()];
    let isMade = false;
    const meta = archive.meta('a', recording).then((found) => {
      isMade = true;
      return found.meta;
    });
    await new Promise((then) => setTimeout(then));
    early.push(isMade);
    waiting[0].finish();
    return [early, await meta, (await archive.tensor('a', recording, 0, 'decoder', 0, 'weights')).shape];
    """
    assert run_slowly(browser, body) == [["asked_00002", [2], False], {"id": "asked_00002"}, [1]]


def test_an_answer_whose_maps_fail_is_forgotten(browser: Browser) -> None:
    """Guards against an entry of the timeline that cannot be drawn, and a number that is given again: the page may
    still show its answer."""
    body = """
    const recording = await ask({whole: true});
    const tensor = archive.tensor('a', recording, 0, 'decoder', 0, 'weights');
    const drawn = [archive.meta('a', recording), tensor].map(outcome);
    waiting[0].refuse(new Error('no memory'));
    const failed = await Promise.all(drawn);
    const after = await outcome(archive.answered('a', recording));
    return [failed, await listed(), after[1], await ask(), await listed()];
    """
    failed, listed, after, following, kept = run_slowly(browser, body)
    assert failed == [["Unavailable", "the maps of question 1 could not be computed: ask again"]] * 2
    assert listed == []
    assert after == "the answer 'asked_00002' is not kept (any more): ask again"
    assert (following, kept) == ("asked_00004", [4])


def test_questions_overlap(browser: Browser) -> None:
    """Guards against two questions with the same numbers, of which the later answer replaces the other. The numbers of
    a refused question are given again, unless another one has taken the next."""
    body = """
    const first = archive.ask({run: 'a', after: 3});
    const second = archive.ask({run: 'a', after: 3});
    const third = outcome(archive.ask({run: 'a', after: 3}));
    waiting[2].refuse(new Error('no such head'));
    await third;
    const fourth = archive.ask({run: 'a', after: 3});
    for (const place of [3, 1, 0]) waiting[place].answer();
    const recordings = (await Promise.all([first, second, fourth])).map(({recording}) => recording);
    for (const place of [0, 1, 3]) waiting[place].finish();
    const metas = await Promise.all(recordings.map((recording) => archive.meta('a', recording)));
    return [recordings, metas.map(({meta}) => meta.id), await listed()];
    """
    names = ["asked_00006", "asked_00008", "asked_00010"]
    assert run_slowly(browser, body) == [names, names, [6, 8, 10]]


@pytest.mark.parametrize("ending", ["finish()", "refuse(new Error('no memory'))"])
def test_answers_are_cleared_while_their_maps_are_computed(browser: Browser, ending: str) -> None:
    """Guards against an answer that comes back, and one asked since that is lost."""
    body = """
    await ask();
    await archive.clear('a');
    const cleared = await listed();
    waiting[0].ENDING;
    await archive.quiet();
    const kept = await ask();
    return [cleared, kept, await listed()];
    """
    given = run_slowly(browser, body.replace("ENDING", ending))
    assert given == [[], "asked_00004", [4]]


def test_the_list_has_no_dropped_answer_and_no_half_of_a_pair(browser: Browser) -> None:
    """Guards against a list, read as soon as a question is answered, with one that is dropped, and a comparison with
    maps that are not there."""
    body = """
    const lists = [];
    for (let question = 0; question < values[1]; question++) {
      await ask({whole: question === 0});
      lists.push(await listed());
    }
    return lists.slice(-2);
    """
    before, after = run_slowly(browser, body, KEPT)
    assert before == [1, *range(2, 2 * KEPT - 1, 2)]
    assert after == list(range(4, 2 * KEPT + 1, 2))


def test_recordings_that_cannot_be_read_are_read_again(browser: Browser) -> None:
    """Guards against a run that stays broken because its first reading failed, and recordings unpacked twice."""
    body = """
    let readings = 0;
    const read = async (run) => {
      readings += 1;
      if (readings === 1) throw new Error('no memory');
      return {meta: {[`${run}|step_00000003`]: {step: 3}}, tensors: {}, curves: {}};
    };
    const lazy = new Archive({index: {runs: {}}, read});
    const seen = [];
    for (let time = 0; time < 3; time++) seen.push(await outcome(lazy.meta('a', 'step_00000003')));
    return [seen, readings];
    """
    seen, readings = run_slowly(browser, body)
    assert seen == [["Error", "no memory"], *[{"meta": {"step": 3}, "size": 0}] * 2]
    assert readings == 2
