"""`test.json`: scores of the test splits, the step of the tested checkpoint, and the settings of the test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from configs.atomic_file import write_whole
from training.run_folder.log import finite


def write_test(run: Path, step: int, settings: Mapping[str, float], figures: Mapping[str, float]) -> None:
    """Write `test.json` with the test scores, the step of the tested checkpoint, and the settings of the test."""
    text = json.dumps(finite({"step": step, **settings, **figures}), indent=1, allow_nan=False) + "\n"
    write_whole(run / "test.json", text.encode())


def tested_step(run: Path, settings: Mapping[str, float]) -> int | None:
    """Return the step of the checkpoint tested in `test.json`; None if missing, damaged, or tested
    with other `settings`: the test is repeated."""
    try:
        tested = json.loads((run / "test.json").read_text(encoding="utf-8"))
        return int(tested["step"]) if all(tested[key] == value for key, value in settings.items()) else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget_test_after(run: Path, step: int) -> None:
    """Delete `test.json` if it tests a checkpoint after `step`, which will be trained again."""
    if (tested_step(run, {}) or 0) > step:
        (run / "test.json").unlink()
