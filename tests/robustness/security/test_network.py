"""No connection is opened unless the config names a remote source, and offline variables are respected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.robustness.security.conftest import run

pytestmark = pytest.mark.slow

ONE_BY_ONE = """
import json, sys
from tests.conftest import COMMANDS
for script, *arguments in json.loads(sys.argv[1]):
    sys.argv = [script, *arguments]
    COMMANDS[script]()
    print(f"{script} has ended", file=sys.stderr, flush=True)
"""
"""Runs several programs in one process: their imports would take most of the time."""


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_training_and_generation_open_no_connection(runs: Path, offline: dict[str, str], task: str) -> None:
    """Guards privacy, and clusters without a network: neither libraries nor the program connect or resolve names."""
    vocabulary = [setting for setting in TINY if not setting.startswith("trainer.steps")]
    commands = (
        ("train.py", *vocabulary, f"task={task}", "trainer.steps=3"),
        ("generate.py", f"run=runs/{task}", "prompt=The cat", "attention=true"),
        ("export.py", f"run=runs/{task}", f"to={task}"),
    )
    done = run(runs, "-c", ONE_BY_ONE, json.dumps(commands), env=offline)
    assert (done.returncode, "NETWORK" in done.stderr) == (0, False), done.stderr
    assert done.stderr.endswith("generate.py has ended\nexport.py has ended\n"), "an export says nothing"
    listed = run(runs, "-m", "attention_maps", "list", "runs", env=offline)
    assert (listed.returncode, listed.stderr) == (0, "")


def test_the_tests_above_would_notice_a_connection(tmp_path: Path, offline: dict[str, str]) -> None:
    """Guards the tests above: a URL in the config is refused by the same environment."""
    done = run(tmp_path, "train.py", "data=text", "data.path=http://127.0.0.1:9/a.txt", env=offline)
    assert done.returncode == 2
    assert "NETWORK" in done.stderr
    assert "error: http://127.0.0.1:9/a.txt: cannot be reached (no network in this test)" in done.stderr


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_the_offline_variables_of_the_hub_are_respected(tmp_path: Path, offline: dict[str, str], variable: str) -> None:
    """Guards against asking the hub although the user has forbidden it; the reason is one sentence."""
    done = run(tmp_path, "train.py", "data=hub", "data.path=nobody/nothing", env=offline | {variable: "1"})
    assert done.returncode == 2
    assert "NETWORK" not in done.stderr
    assert done.stderr.startswith(
        "error: data.path=nobody/nothing: there is no local copy, and the hub cannot be reached:"
    )
    assert f"({variable} is set)" in done.stderr
    assert done.stderr.count("\n") == 1
