"""`python -m attention_maps.tensorboard`: user errors print one line and exit with code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in cases in which it exits immediately."""
    command = [sys.executable, "-m", "attention_maps.tensorboard", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--logdir is required: python -m attention_maps.tensorboard --logdir runs"),
        (("--port", "0"), "--logdir is required"),
        (("--logdir", "nowhere/at/all"), "there is no folder nowhere/at/all; train a model first (python train.py)"),
        (("--logdir", "~nobody_of_this_name/runs"), "there is no folder ~nobody_of_this_name/runs"),
        (("--logdir", "README.md"), "there is no folder README.md"),
        (("--logdir", ".", "--path_prefix", "prefix"), "Path prefix must start with slash"),
        (("--logdir", ".", "--logdir_spec", "a:b"), "May not specify both --logdir and --logdir_spec"),
    ],
)
def test_a_mistake_gets_one_line_with_the_way_out(arguments: tuple[str, ...], message: str) -> None:
    """Guards against an empty page, or a traceback of TensorBoard, for a missing folder."""
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_flags_are_those_of_tensorboard(tmp_path: Path) -> None:
    """Guards against flags that work for `tensorboard` only."""
    done = run("--version")
    assert (done.returncode, done.stdout.count(".")) == (0, 2)
    done = run("--logdir", str(tmp_path), "--no_such_flag")
    assert done.returncode == 2
    assert "unrecognized arguments: --no_such_flag" in done.stderr
