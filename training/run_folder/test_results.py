"""`test.json`: scores of the test splits, and the step of the tested checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from configs.whole_file import write_whole
from training.run_folder.log import finite


def write_test(run: Path, step: int, figures: dict[str, float]) -> None:
    """Write `test.json` with the test scores and the step of the tested checkpoint."""
    text = json.dumps(finite({"step": step, **figures}), indent=1, allow_nan=False) + "\n"
    write_whole(run / "test.json", text.encode())


def tested_step(run: Path) -> int | None:
    """Return the step of the checkpoint tested in `test.json`; None if missing or damaged: the test is repeated."""
    try:
        return int(json.loads((run / "test.json").read_text(encoding="utf-8"))["step"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget_test_after(run: Path, step: int) -> None:
    """Delete `test.json` if it tests a checkpoint after `step`, which will be trained again."""
    if (tested_step(run) or 0) > step:
        (run / "test.json").unlink()
