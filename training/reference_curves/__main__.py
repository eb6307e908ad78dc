"""Compare a run with the reference run of its recipe: `python -m training.reference_curves --help`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from configs.program import importing, run_guarded

with importing():
    from configs.atomic_file import write_whole
    from configs.errors import UserError
    from configs.program import expanded
    from configs.run_contents import check_contents
    from configs.settings import describe, read_settings
    from training.checkpoints.files import data_hashes
    from training.checkpoints.loading import checkpoint_path
    from training.composed_run import compose_run
    from training.config import TrainConfig
    from training.reference_curves.curve import CURVES, Curve, Point, effective_settings, reference, to_json
    from training.reference_curves.drawing import draw, draw_all
    from training.run_folder.log import METRICS, duration, table, wrapped
    from training.run_folder.saved_config import load_config

PICTURE = "reference_curve.svg"
HELP = """Compare the validation losses of a run with those of the reference run of its recipe: a table and a picture.

  python -m training.reference_curves run=runs/NAME                 the table, and runs/NAME/reference_curve.svg
  python -m training.reference_curves run=runs/NAME recipe=tatoeba  a run that was made without +experiment=
  python -m training.reference_curves run=runs/NAME save=true       make this run the reference of its recipe
  python -m training.reference_curves to=curves.svg                 a picture of the reference runs of all recipes

Settings (key=value):"""


@dataclass
class CurveSettings:
    """Compare a run with the reference run of its recipe."""

    run: str | None = None
    """A run folder, runs/NAME. The run may still be training."""

    recipe: str | None = None
    """The recipe to compare with. Default: that of the run."""

    to: str | None = None
    """Picture, .svg or .png. Default: reference_curve.svg in the run folder."""

    save: bool = False
    """Write the curve of this run to the checkout as the reference of its recipe. Only for a finished run without
    overridden settings; on the machine that made the run, whose processor is stored."""


def main(arguments: Sequence[str]) -> None:
    """Compare or save. Raises UserError."""
    if {"--help", "-h"} & set(arguments):
        print(HELP, *describe(CurveSettings(), none=""), sep="\n")
        return
    settings, problems = read_settings(CurveSettings, arguments)
    if not settings.run and not settings.to:
        problems.append("run=runs/NAME is needed: the folder of a run; or to=FILE.svg for the curves of all recipes")
    if not settings.run and (settings.recipe or settings.save):
        problems.append("recipe and save need run=runs/NAME")
    if settings.to is not None and Path(settings.to).suffix not in (".svg", ".png"):
        problems.append(f"to={settings.to}: must end with .svg or .png")
    if settings.save and (settings.to or settings.recipe):
        problems.append("save=true: cannot be combined with to or recipe")
    if problems:
        raise UserError(*problems)
    picture = expanded(settings.to) if settings.to else expanded(f"{settings.run}/{PICTURE}")
    if not settings.run:
        draw_all([curve for path in sorted(CURVES.glob("*.json")) if (curve := reference(path.stem))], picture)
        print(f"picture: {picture}")
        return
    run = expanded(settings.run)
    check_contents(run, written="" if settings.to else PICTURE)
    config, evaluations = load_config(run), read_evaluations(run)
    recipe = settings.recipe or config.experiment
    if recipe is None:
        raise UserError(f"{run}: was not made with +experiment=…; choose a recipe to compare with: recipe=NAME")
    mine = curve_of(run, recipe, config, evaluations)
    if settings.save:
        save(run, config, mine, evaluations)
        return
    known = reference(recipe)
    if known is None:
        there = ", ".join(sorted(path.stem for path in CURVES.glob("*.json"))) or "none"
        raise UserError(f"{recipe}: has no reference curve; there are: {there}")
    print(*wrapped(comparison(mine, known, settings.run)), sep="\n")
    draw(mine, known, settings.run, picture)
    print(f"picture: {picture}")


def read_evaluations(run: Path) -> list[dict[str, Any]]:
    """Return the evaluations in the run's metrics. Raises UserError if there are none."""
    found = []
    with suppress(FileNotFoundError):
        for line in (run / METRICS).read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line, if it is being written
                found.append(json.loads(line))
    found = [each for each in found if each.get("val/loss") is not None]
    if not found:
        raise UserError(f"{run}: has no evaluation yet")
    return found


def curve_of(run: Path, recipe: str, config: TrainConfig, evaluations: Sequence[dict[str, Any]]) -> Curve:
    """Return the curve of a run. The hashes of its data are in its checkpoint."""
    points = [Point(each["step"], each["seconds"], each["val/loss"]) for each in evaluations]
    data = dict(zip(("train", "valid"), data_hashes(checkpoint_path(run)), strict=False))
    return Curve(recipe, points, effective_settings(config), data, {})


def comparison(mine: Curve, known: Curve, name: str) -> list[str]:
    """Return the lines of the comparison."""
    about = known.about
    rows = []
    for point, found in known.compare(mine):
        cells = (
            ["", "", ""] if found is None else [f"{found[0]:,.0f}", f"{found[1]:.4f}", f"{point.loss - found[1]:+.4f}"]
        )
        rows.append([f"{point.step:,}", f"{point.loss:.4f}", *cells])
    last = known.points[-1]
    lines = [
        table(["step", "val loss", "step of the reference", "val loss of the reference", "difference"], rows),
        "",
        f"reference run of {known.recipe}: {last.step:,} steps in {duration(last.seconds)} on {about['machine']}"
        f" ({about['hardware']}), {about['date']}, commit {about['commit']}",
    ]
    if known.minutes is not None and known.minutes == mine.minutes:
        lines.append(
            f"the budget is a time, {known.minutes:g} minutes: compared after the same share of it, whatever the step"
        )
    if any(
        found is not None and round(found[0]) not in {one.step for one in known.points}
        for _, found in known.compare(mine)
    ):
        lines.append("between two evaluations of the reference: linear in the logarithm of the step or time")
    if different := known.differences(mine):
        lines.append(f"not like with like, {name} has {', '.join(different)}")
    return lines


def save(run: Path, config: TrainConfig, curve: Curve, evaluations: Sequence[dict[str, Any]]) -> None:
    """Write a run as the reference curve of its recipe. Raises UserError if it is not finished, or not the recipe."""
    if config.experiment is None:
        raise UserError(f"{run}: was not made with +experiment=…")
    data = [f"data.path={config.data.path}"] if config.data.path else []
    composed = compose_run([f"+experiment={config.experiment}", *data])
    if composed.problems:
        raise UserError(*composed.problems)
    plain = Curve(config.experiment, curve.points, effective_settings(composed.config), curve.data, {})
    if different := plain.differences(curve):
        raise UserError(f"{run}: is not the recipe {config.experiment}: {', '.join(different)}")
    last = curve.points[-1]
    trainer = config.trainer
    done = last.step / trainer.steps if trainer.steps else last.seconds / (60 * (trainer.minutes or 1))
    if done < 1:
        raise UserError(f"{run}: is not finished: {int(100 * done)} % of its budget")
    text = (run / "log.txt").read_text(encoding="utf-8", errors="replace")
    hardware = re.findall(r"vocabulary of [\d +]+, (.*), attention by ", text)
    about = {
        "machine": processor(),
        "hardware": hardware[-1] if hardware else "unknown",
        "commit": commit(),
        "date": datetime.fromtimestamp((run / METRICS).stat().st_mtime, UTC).date().isoformat(),
        "seconds": last.seconds,
        "steps": last.step,
        "seed": config.seed,
    }
    path = CURVES / f"{config.experiment}.json"
    saved = Curve(curve.recipe, curve.points, curve.settings, curve.data, about)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, to_json(saved, evaluations).encode())
    print(f"written to {path}")


def processor() -> str:
    """Return the name of the processor."""
    with suppress(OSError):
        if name := re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8")):
            return " ".join(name[1].split())
    return "unknown processor"


def commit() -> str:
    """Return the commit of the checkout, if it is one."""
    root = Path(__file__).parent
    done = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    run_guarded(lambda: main(sys.argv[1:]))
