"""Imports of a start before its first output."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

HEAVY = {"torch", "datasets", "pyarrow", "sentencepiece", "tensorboard", "matplotlib", "sacrebleu", "transformers"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments", "code"),
    [
        ("train.py", ["--help"], 0),
        ("train.py", ["optim.lrr=1"], 2),
        ("generate.py", ["--help"], 0),
        ("generate.py", ["temprature=1"], 2),
    ],
)
def test_help_and_mistakes_wait_for_no_library(script: str, arguments: list[str], code: int) -> None:
    """Guards against seconds of imports before the help or the error for a typing mistake."""
    program = (
        "import runpy, sys\n"
        f"sys.argv = {[script, *arguments]!r}\n"
        "try:\n"
        f"    runpy.run_path({str(ROOT / script)!r}, run_name='__main__')\n"
        "except SystemExit as end:\n"
        f"    assert end.code == {code}, end.code\n"
        "print('loaded', *{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())
