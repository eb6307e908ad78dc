"""A power failure at any instant: every state in which it may leave the disk loads as the old or as the new one.

The system calls of each scenario are traced with strace; `disk.states` builds what may be left of them. With any one
fsync taken out of the trace, the same check must fail: each of them is needed.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from attention_maps.files.store import RecordingError, load
from attention_maps.files.store import steps as recorded_steps
from configs.errors import UserError
from tests.conftest import ROOT, environment
from tests.robustness.crash_states import disk
from tests.robustness.crash_states.scenarios import BOOK, VERSIONS
from tests.robustness.crash_states.trace import Inodes, Op, can_trace, traced
from training.checkpoints.folder import rewind
from training.checkpoints.loading import read_checkpoint
from training.run_folder.log import truncate_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_trace(), reason="strace is not installed (make strace), or not permitted"),
]

Result = Hashable
"""What a program finds on a disk, comparable."""
Traces = dict[str, tuple[list[Op], Inodes, Path]]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Trace all scenarios -> operations, inodes and the real folder of each."""
    base = tmp_path_factory.mktemp("traced")
    (base / "book.txt").write_text(BOOK, encoding="utf-8")
    command = [sys.executable, "-m", "tests.robustness.crash_states.scenarios", str(base)]
    result = traced(command, base, base / "strace.log", environment() | {"BOOK": str(base / "book.txt")})
    return {name: (*trace, base / name) for name, trace in result.items()}


class Wrong(AssertionError):
    """A state that loads as neither the old nor the new one."""


def checkpoints(folder: Path, final: Path) -> Result:
    """What a resume finds: the step, the evaluated step, the best step and the steps of early weights; None without a
    checkpoint."""
    run = folder / "runs" / "run"
    try:
        result = read_checkpoint(run, "last", with_state=True)
    except UserError as error:
        if "contains no checkpoint" in str(error):
            return None
        raise Wrong(str(error)) from error
    if result.damaged:
        raise Wrong(f"damaged: {result.damaged}")
    assert result.state is not None
    if result.weights["w"].tolist() != [result.step] * 40 or result.state["moments"].tolist() != [result.step] * 80:
        raise Wrong(f"step {result.step} has the content of another")
    progress = result.state["progress"]
    if progress["best_step"] is not None:
        before = read_checkpoint(run, "best")  # of the evaluation before, until a resume repairs the link
        rewind(result.path, progress["best_step"], keep=0)
        best = read_checkpoint(run, "best")
        if before.damaged or best.damaged or best.step != progress["best_step"]:
            raise Wrong(f"the best step is {progress['best_step']}; the link says {before.step}, then {best.step}")
    truncate_metrics(run / "metrics.jsonl", progress["evaluated_step"])
    metrics = run / "metrics.jsonl"
    logged = len(metrics.read_bytes().splitlines()) if metrics.exists() else 0
    if logged != progress["evaluated_step"] / 10:
        raise Wrong(f"evaluated at step {progress['evaluated_step']}, but metrics.jsonl has {logged} lines")
    early = [read_checkpoint(run, path.name) for path in sorted(run.glob("checkpoints/weights-*"))]
    if any(each.weights["w"].tolist() != [each.step] * 40 for each in early):
        raise Wrong("early weights are those of another step")
    return result.step, progress["evaluated_step"], progress["best_step"], tuple(each.step for each in early)


def recordings(folder: Path, final: Path) -> Result:
    """The recorded steps; each must have its content."""
    run = folder / "run"
    result = recorded_steps(run) if run.is_dir() else {}
    for step, path in result.items():
        weights = load(path).samples[0].weights["decoder", 0]
        if weights.tolist() != load(recorded_steps(final / "run")[step]).samples[0].weights["decoder", 0].tolist():
            raise Wrong(f"{path} has other content")
    return tuple(result)


def late_recordings(folder: Path, final: Path) -> Result:
    """Whether both recordings are there; until they are brought to the disk, they may be empty, but not wrong."""
    result = recorded_steps(folder / "run") if (folder / "run").is_dir() else {}
    whole = 0
    for step, path in result.items():
        with suppress(RecordingError):
            weights = load(path).samples[0].weights["decoder", 0]
            if weights.tolist() != load(recorded_steps(final / "run")[step]).samples[0].weights["decoder", 0].tolist():
                raise Wrong(f"{path} has other content")
            whole += 1
    return whole == 2


def cache(folder: Path, final: Path) -> Result:
    """Nothing: any of the prepared folders may be absent, and is made again; each one present must be complete."""
    for path in sorted(folder.glob("cache/*/*")):
        hidden_or_lock = path.name.startswith(".") or path.suffix == ".lock"
        if not hidden_or_lock and disk.read(path) != disk.read(final / path.relative_to(folder)):
            raise Wrong(f"{path} is incomplete")
    return None


def engine(folder: Path, final: Path) -> Result:
    """Nothing: the folder may be absent, and is made again; if it is present, it must be complete."""
    path = folder / "engine" / "ctranslate2-0"
    if path.exists() and disk.read(path) != disk.read(final / "engine" / "ctranslate2-0"):
        raise Wrong(f"{path} is incomplete")
    return None


def download(folder: Path, final: Path) -> Result:
    """The version of the copy; the validators, if there are any, must be those of this version."""
    copies = list(folder.glob("downloads/*/book.txt"))
    if not copies:
        return None
    content = copies[0].read_text(encoding="utf-8")
    if content not in VERSIONS:
        raise Wrong(f"the copy has {len(content)} characters of no version")
    note, version = copies[0].with_name("validators.json"), VERSIONS.index(content)
    if note.exists() and f'\\"{version}\\"' not in note.read_text(encoding="utf-8"):
        raise Wrong("the validators belong to another version than the copy")
    return version


CHECKS: dict[str, Callable[[Path, Path], Result]] = {
    each.__name__: each for each in (checkpoints, recordings, late_recordings, cache, engine, download)
}
DURABLE = {"checkpoints", "late_recordings"}
"""What must be on the disk when our function returns; everything else may also be lost as a whole."""


def checked(name: str, ops: list[Op], inodes: Inodes, final: Path, scratch: Path) -> int:
    """Load every state of a scenario -> their number. Raises an exception for a wrong one."""
    check, seen = CHECKS[name], set[int]()
    ends = [number for number, op in enumerate(ops) if op.kind == "mark" and op.text.startswith("done")]
    results = [found(check, whole(ops, inodes, end), scratch, final) for end in (0, *ends)]
    for end in range(len(ops) + 1):
        if end < len(ops) and ops[end].kind == "mark":
            continue  # the next operation is checked with what the mark promises
        complete = sum(number < end for number in ends)
        allowed = results[complete : complete + 2] if name in DURABLE else results[: complete + 2]
        for state in disk.states(ops, inodes, end):
            key = hash((complete, repr(state)))
            if key not in seen:
                seen.add(key)
                result = found(check, state, scratch, final)
                if result not in allowed:
                    raise Wrong(f"{name} after {end} operations: found {result}, allowed are {allowed}")
    return len(seen)


def whole(ops: list[Op], inodes: Inodes, end: int) -> disk.Tree:
    """Return the state with everything that was written before `ops[end]`."""
    return next(disk.states([op for op in ops[:end] if op.kind != "sync"], inodes, len(ops)))


def found(check: Callable[[Path, Path], Result], state: disk.Tree, scratch: Path, final: Path) -> Result:
    """Load one state."""
    folder = scratch / "state"
    disk.write(state, folder)
    try:
        return check(folder, final)
    finally:
        shutil.rmtree(folder)


def test_the_simulated_disk_ends_like_the_real_one(traces: Traces) -> None:
    """Guards against writes that the trace misses, e.g. through a memory map."""
    for ops, inodes, root in traces.values():
        assert whole(ops, inodes, len(ops)) == disk.read(root)


def test_every_state_after_a_power_failure_is_the_old_or_the_new_one(
    traces: Traces, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a run without any checkpoint, weights of another step, and incomplete data used for training."""
    counts = {name: checked(name, *trace, tmp_path) for name, trace in traces.items()}
    with capsys.disabled():
        print(f"\ncrash states that load: {counts}, {sum(counts.values())} in all")
    assert sum(counts.values()) >= 200


def without(ops: list[Op], place: str) -> list[Op]:
    """Return the trace of a program that lacks one fsync: without those after its mark."""
    kept, skip = [], False
    for op in ops:
        if op.kind == "mark":
            skip = op.text == f"fsync {place}"
        if not (skip and op.kind == "sync"):
            kept.append(op)
    return kept


def places(traces: Traces) -> list[str]:
    """Return the places in our code that ask for an fsync, with the file in a checkpoint."""
    marks = [op.text for ops, _, _ in traces.values() for op in ops if op.kind == "mark"]
    return sorted({text.removeprefix("fsync ") for text in marks if text.startswith("fsync ")})


def test_a_build_without_any_one_fsync_is_caught(
    traces: Traces, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a check that cannot fail, and against an fsync that nothing needs."""
    caught = {place: reason(traces, place, tmp_path) for place in places(traces)}
    with capsys.disabled():
        print(f"\nremoved fsyncs caught: {sum(map(bool, caught.values()))} of {len(caught)}")
    assert [place for place, reason in caught.items() if not reason] == []


def reason(traces: Traces, place: str, scratch: Path) -> str | None:
    """Return why a build without this fsync is wrong, or None."""
    for name, (ops, inodes, final) in traces.items():
        fewer = without(ops, place)
        if len(fewer) < len(ops):
            try:
                checked(name, fewer, inodes, final, scratch)
            except Exception as error:
                return str(error)
    return None


def test_every_fsync_of_our_code_is_in_a_trace(traces: Traces) -> None:
    """Guards against a new durable file without a scenario here."""
    traced_lines = {
        place.split(" ")[0].replace(":", "/") + place.split(" ")[1].rpartition(":")[2] for place in places(traces)
    }
    assert {f"{path}{line}" for path, line in calls()} == traced_lines


def calls() -> Iterator[tuple[str, int]]:
    """Yield file and line of each call of `flush` of atomic_file.py in our code."""
    for package in ("data", "training", "attention_maps", "generation"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "flush":
                    yield str(path.relative_to(ROOT)), node.lineno
