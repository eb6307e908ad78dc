"""The result of an evaluation: lines for the terminal, and a JSON file that keeps earlier results."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from configs.atomic_file import write_whole
from configs.errors import UserError
from configs.program import expanded
from configs.run_contents import check_contents
from training.evaluation.reports.bootstrap import Figure
from training.evaluation.reports.evaluated_run import Subject
from training.evaluation.reports.settings import EvaluateSettings

FORMAT = "chumoku evaluation 1"


@dataclass
class Result:
    """Result of an evaluation."""

    lines: list[str]
    """Table and explanations, for the terminal."""
    protocol: dict[str, Any]
    """How it was measured; two results are comparable if their protocols are equal."""
    scores: Mapping[str, Figure]
    more: dict[str, Any] = field(default_factory=dict)
    """Further entries of the file: baselines, a comparison, translations."""


def result_path(settings: EvaluateSettings, run: Path, members: int) -> Path:
    """Return the output file, before the work. run: the folder of the run, or of the first of several `members`. Raises
    UserError if it cannot be written or is not a result."""
    parts = (settings.split, settings.reverse and "reverse", settings.tune, members > 1 and "ensemble", "json")
    name = ".".join(part for part in parts if part)
    path = expanded(settings.json) if settings.json else run / "evaluation" / name
    if not settings.json:
        check_contents(run, written="evaluation")
    elif not path.parent.is_dir():
        raise UserError(f"json={settings.json}: there is no folder {path.parent}")
    existing = next(folder for folder in path.parents if folder.exists())
    if not os.access(existing, os.W_OK):
        raise UserError(f"{path}: cannot be written (no permission for {existing}); set json=FILE")
    if path.exists():
        earlier(path)
    return path


def earlier(path: Path) -> dict[str, Any]:
    """Return the earlier result in a file. Raises UserError if the file holds something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] == FORMAT and isinstance(content["model"]["step"], int):
            return content
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(f"{path}: exists and is not a result of evaluate.py; move it, or set json=FILE")


def save_result(path: Path, result: Result, subject: Subject) -> list[str]:
    """Write the result; an earlier one of other weights, or measured in another way, is renamed -> lines for the
    terminal."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "model": subject.identity(),
        "split": subject.split,
        "protocol": result.protocol,
        "scores": {name: asdict(figure) for name, figure in result.scores.items()},
        "data": {"source": subject.config.data.source, "keys": subject.prepared.keys},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": str(next(subject.model.parameters()).device),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in ("torch", "sacrebleu")},
        "notes": subject.notes,
        **result.more,
    }
    content = plain(content)
    lines = []
    path.parent.mkdir(exist_ok=True)
    if path.exists() and measured(before := earlier(path)) != measured(content):
        backup = free_name(path, before["model"]["step"])
        path.rename(backup)
        lines.append(f"the earlier result, of another checkpoint, other data or settings, is now {backup}")
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode(errors="replace"))
    return [*lines, f"written to {path}"]


def measured(content: dict[str, Any]) -> list[Any]:
    """Return what was measured and how: a result that agrees in it may be overwritten."""
    return [content["model"].get("weights_sha256"), content.get("protocol"), content.get("data")]


def plain(content: Any) -> Any:
    """Convert the numbers of numpy to those of Python, and infinite ones, which JSON lacks, to None."""
    if isinstance(content, Mapping):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    number = float(content) if isinstance(content, np.floating) else content
    return None if isinstance(number, float) and not math.isfinite(number) else number


def free_name(path: Path, step: int) -> Path:
    """Return `test.step-500.json`, or `test.step-500-2.json` if there is one, and so on."""
    names = (path.with_name(f"{path.stem}.step-{step}{more}.json") for more in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(name for name in names if not name.exists())
