"""Run evaluate.py and generate.py in the process of a test, and read what evaluate.py wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Shown = tuple[int, str, str]
"""Exit code, stdout and stderr."""

Program = Callable[..., Shown]


def command(monkeypatch: pytest.MonkeyPatch, run: Callable[[], None], *arguments: str) -> int:
    """Run a program in this process with these arguments -> its exit code."""
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    try:
        run()
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def result(folder: Path, run: str, name: str = "test") -> dict:
    """Return the result of an evaluation of a run. name: of the file, the split and what else distinguishes it."""
    return json.loads((folder / "runs" / run / "evaluation" / f"{name}.json").read_text(encoding="utf-8"))
