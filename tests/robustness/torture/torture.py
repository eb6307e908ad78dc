"""Kill training runs with SIGKILL many times, resume them, and compare their ends with an undisturbed run."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from configs.errors import UserError
from tests.robustness.torture.compare import differences
from tests.robustness.torture.kills import PLAN, RANDOM, Plan, start
from tests.robustness.torture.recipes import RECIPES


@dataclass
class TortureSettings:
    """Settings of `torture`."""

    kills: int = 100
    """Kills for each task; a third of them is aimed at a piece of work, the others come at random instants."""

    seed: int = 1
    """Seed of the instants. Two runs with one seed are similar, not equal: the timing of the machine decides too."""

    task: Literal["both", "gpt", "translate"] = "both"
    """Task of the runs."""

    folder: str = ""
    """Folder of the runs, which is kept; empty: a temporary folder, of which only runs with a loss are kept."""


@dataclass
class Tally:
    """The kills of one task."""

    task: str
    survived: int = 0
    lost: int = 0
    runs: int = 0
    places: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        places = ", ".join(f"{count} {place}" for place, count in self.places.most_common())
        return "\n".join(
            [
                f"{self.task}: survived {self.survived} / lost {self.lost} ({self.runs} runs; kills: {places})",
                *(f"  {line}" for line in self.findings),
            ]
        )


def torture(settings: TortureSettings) -> None:
    """Kill training runs with SIGKILL at random instants and inside checkpoints, recordings, event files, preparation
    and the final test; resume each until it is finished; compare weights, optimiser, metrics, recordings, TensorBoard
    points and test scores with those of an undisturbed run. Exit code 1 if anything is lost."""
    if settings.kills < 1:
        raise UserError(f"kills={settings.kills}: must be at least 1")
    root = Path(settings.folder or tempfile.mkdtemp(prefix="torture-")).absolute()
    tallies = []
    for task in RECIPES if settings.task == "both" else [settings.task]:
        tallies.append(torture_task(task, settings.kills, random.Random(f"{settings.seed} {task}"), root / task))
        print(tallies[-1], flush=True)
    if any(tally.lost for tally in tallies):
        print(f"the runs are in {root}")
        raise SystemExit(1)
    if not settings.folder:
        shutil.rmtree(root)


def torture_task(task: str, kills: int, chance: random.Random, root: Path, plan: Plan = PLAN) -> Tally:
    """Kill the runs of one task, each according to the plan, and return what survived."""
    recipe, tally = RECIPES[task], Tally(task)
    reference = new_folder(root / "reference")
    undisturbed = start(reference, recipe, RANDOM, chance)
    if undisturbed.code:
        raise UserError(f"the undisturbed run of {task} fails:\n{undisturbed.output}")
    turns = {places: itertools.cycle(chance.sample(places, len(places))) for places in plan}
    with tqdm(total=kills, desc=task, unit="kill", disable=None) as bar:
        while sum(tally.places.values()) < kills:
            folder = new_folder(root / f"run-{tally.runs + 1}")
            killed: list[str] = []
            for places in plan[: kills - sum(tally.places.values())]:
                place = next(turns[places])
                done = start(folder, recipe, place, chance, undisturbed.cpu_seconds)
                if not done.killed:
                    break
                killed.append(place)
                bar.update()
            else:
                done = start(folder, recipe, RANDOM, chance)
            judge(tally, folder, reference, killed, done.code, done.output)
    return tally


def judge(tally: Tally, folder: Path, reference: Path, killed: list[str], code: int, output: str) -> None:
    """Count the kills of a finished run as survived or lost."""
    tally.runs += 1
    tally.places.update(killed)
    result = differences(folder, reference)
    if code:
        result = [f"ends with code {code}: {output.strip().splitlines()[-1] if output.strip() else ''}", *result]
    if result:
        tally.lost += len(killed)
        tally.findings.append(f"{folder.name}, killed at: {', '.join(killed)}")
        tally.findings += [f"  {line}" for line in result[:20]]
    else:
        tally.survived += len(killed)
        shutil.rmtree(folder)


def new_folder(path: Path) -> Path:
    """Create an empty folder."""
    if path.exists():
        raise UserError(f"{path}: exists; choose another folder=…")
    path.mkdir(parents=True)
    return path
