"""`test.json`: the scores of the test splits, and the step whose checkpoint was tested."""

from __future__ import annotations

import json
from pathlib import Path

from configs.whole_file import write_whole
from training.run_folder.log import finite


def write_test(run: Path, step: int, figures: dict[str, float]) -> None:
    """`test.json`: what the test splits gave, and with which step's checkpoint."""
    text = json.dumps(finite({"step": step, **figures}), indent=1, allow_nan=False) + "\n"
    write_whole(run / "test.json", text.encode())


def tested_step(run: Path) -> int | None:
    """The step whose checkpoint `test.json` is about, or None when there is no such file, or a damaged one: the test is
    repeated then."""
    try:
        return int(json.loads((run / "test.json").read_text(encoding="utf-8"))["step"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget_test_after(run: Path, step: int) -> None:
    """Remove `test.json` where it is about a checkpoint after `step`: that step is about to be trained again."""
    if (tested_step(run) or 0) > step:
        (run / "test.json").unlink()
