"""No connection is opened unless the config names a remote source, and offline variables are respected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.security.conftest import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_training_and_generation_open_no_connection(runs: Path, offline: dict[str, str], task: str) -> None:
    """Guards privacy, and clusters without a network: neither libraries nor the program connect or resolve names."""
    vocabulary = [setting for setting in TINY if not setting.startswith("trainer.steps")]
    trained = run(runs, "train.py", *vocabulary, f"task={task}", "trainer.steps=3", env=offline)
    assert (trained.returncode, "NETWORK" in trained.stderr) == (0, False), trained.stderr
    written = run(runs, "generate.py", f"run=runs/{task}", "prompt=The cat", "attention=true", env=offline)
    assert (written.returncode, "NETWORK" in written.stderr) == (0, False), written.stderr
    exported = run(runs, "export.py", f"run=runs/{task}", f"to={task}", env=offline)
    assert (exported.returncode, exported.stderr) == (0, "")
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
