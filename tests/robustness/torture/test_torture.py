"""`make torture`: killed runs end like undisturbed ones, and the comparison notices what is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.robustness.torture.compare import differences
from tests.robustness.torture.kills import ANY, INSIDE, PREPARING, RANDOM, TESTING, WRITING, start, wait_for
from tests.robustness.torture.recipes import RECIPES, RUN
from tests.robustness.torture.torture import torture_task


@pytest.mark.long
@pytest.mark.parametrize("task", RECIPES)
def test_a_run_survives_kills_while_it_prepares_trains_writes_and_tests(task: str, tmp_path: Path) -> None:
    """Guards against any state or file that a SIGKILL loses, doubles or leaves behind; `make torture` kills a hundred
    times."""
    plan = (PREPARING, WRITING, ANY, TESTING)
    tally = torture_task(task, 4, random.Random(os.environ.get("TORTURE_SEED", task)), tmp_path, plan)
    assert f"{task}: survived 4 / lost 0" in str(tally), str(tally)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an undisturbed run."""
    folder = tmp_path_factory.mktemp("finished")
    done = start(folder, RECIPES["gpt"], RANDOM, random.Random(1))
    assert done.code == 0, done.output
    return folder


def repeated_point(run: Path) -> None:
    (file,) = run.glob("events.out.tfevents.*")
    shutil.copyfile(file, run / "events.out.tfevents.9999999999.other")


def missing_points(run: Path) -> None:
    (file,) = run.glob("events.out.tfevents.*")
    file.write_bytes(file.read_bytes()[:-200])


def other_weight(run: Path) -> None:
    path = run / "checkpoints" / "last" / "weights.safetensors"
    weights = load_file(path)
    name = sorted(weights)[0]
    weights[name].view(torch.int32).flatten()[0] ^= 1
    save_file(weights, path)


def other_moment(run: Path) -> None:
    path = run / "checkpoints" / "last" / "state.pt"
    state = torch.load(path, weights_only=True)
    state["optimizer"][0][0]["exp_avg"][7] += 1e-6
    torch.save(state, path)


def other_loss(run: Path) -> None:
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["val/loss"] += 1e-9
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda run: None, ""),
        (repeated_point, "loss has 2 points at step 3"),
        (missing_points, "lacks 1 points"),
        (other_weight, "weights.safetensors: differs"),
        (other_moment, "state.pt: differs"),
        (other_loss, "metrics.jsonl: differs"),
        (lambda run: sorted((run / "attention").iterdir())[1].unlink(), "safetensors: is missing"),
        (lambda run: (run / ".test.json.0a1b2c3d").touch(), ".test.json.0a1b2c3d: is left over"),
        (lambda run: (run / "test.json").write_text("{}"), "test.json: differs"),
    ],
)
def test_the_comparison_finds_what_is_lost_doubled_or_left_over(
    damage: Callable[[Path], None], found: str, finished: Path, tmp_path: Path
) -> None:
    """Guards against a torture that every run survives because nothing is compared."""
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy, symlinks=True)
    damage(copy / RUN)
    lines = "\n".join(differences(copy, finished))
    assert (found in lines) if found else not lines


@pytest.mark.parametrize(("calls", "written"), [(0, range(1)), (5, range(1, 8))])
def test_a_process_is_killed_within_the_chosen_work(calls: int, written: range, tmp_path: Path) -> None:
    """Guards against aimed kills that come too late, or hit other files."""
    program = (
        "open('b.txt', 'w').close(); open('a.txt'); f = open('a.txt', 'w', buffering=1)\n" + "f.write('x\\n')\n" * 9
    )
    (tmp_path / "a.txt").write_text("")
    variables = {"PYTHONPATH": str(INSIDE), "CHUMOKU_KILL": rf"a\.txt$ 1 {calls}"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=os.environ | variables, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len((tmp_path / "a.txt").read_text().splitlines()) in written


@pytest.mark.parametrize(("program", "killed"), [("import time; time.sleep(1)", False), ("while True: pass", True)])
def test_a_random_instant_is_a_time_of_work_not_of_waiting(program: str, killed: bool, tmp_path: Path) -> None:
    """Guards against kills that all hit the start of a process which other programs slow down."""
    process = subprocess.Popen([sys.executable, "-S", "-c", program])
    try:
        used = wait_for(process, tmp_path, RANDOM, random.Random(1), 3.0)  # 0.4 s of them
        assert (process.poll() is None, used > 0.4) == (killed, killed)
    finally:
        process.kill()
        process.wait()
