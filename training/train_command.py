"""What `python train.py …` does with its arguments."""

from __future__ import annotations

import sys

import hydra
from tqdm import tqdm

from configs.compose import CONFIGS, normalise
from configs.errors import UserError
from configs.help import train_help
from configs.program import importing, run_guarded
from configs.sweep_points import Point, sweep_points
from training.composed_run import ComposedRun, compose_run
from training.config import TrainConfig
from training.progress import Interrupted
from training.run_folder.saved_config import to_yaml

SWEEP_FLAGS = ("-m", "--multirun")
OF_CFG = ("--resolve", "--package", "-p")
FLAGS = ("--resolve", "--version", "--hydra-help")
FLAGS_WITH_VALUE = ("--cfg", "-c", "--package", "-p", "--info", "-i")
"""Flags of Hydra that are passed on; the second kind takes a value of its own."""


def train_command() -> None:
    """Run `train.py`."""
    arguments = sys.argv[1:]
    run_guarded(lambda: print(train_help(TrainConfig)) if {"--help", "-h"} & set(arguments) else execute(arguments))


def execute(arguments: list[str]) -> None:
    """Check all arguments, report all problems at once, then train: one run, or every point of a sweep."""
    found: list[str] = []
    flags, settings = split_flags(arguments, found)
    settings = [normalise(setting) for setting in settings]
    points = sweep_points(settings, found)
    if len(points) > 1:
        found += sweep_problems(flags, settings)
    bar = tqdm(points, desc="checking", unit="run", disable=None if len(points) > 1 else True, delay=2, leave=False)
    runs = [compose_run(point.settings) for point in bar]
    found += [problem for run in runs for problem in run.problems]
    if found:
        raise UserError(*dict.fromkeys(found))
    others = [flag for flag in flags if flag not in SWEEP_FLAGS]
    if others in (["--cfg", "job"], ["-c", "job"]):
        print("---\n".join(to_yaml(run.config) for run in runs), end="")
    elif others:
        sys.argv[1:] = flags + settings
        hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")(lambda config: None)()
    else:
        train_all(points, runs)


def split_flags(arguments: list[str], found: list[str]) -> tuple[list[str], list[str]]:
    """Hydra's own flags with their values (`-m`, `--cfg job`), and the settings."""
    flags: list[str] = []
    settings: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            settings.append(argument)
        elif argument in SWEEP_FLAGS + FLAGS:
            flags.append(argument)
        elif argument in FLAGS_WITH_VALUE:
            flags += [argument, next(remaining, "")]
        else:
            found.append(f"{argument}: no such flag; settings are written key=value without dashes, --help lists them")
    if set(OF_CFG) & set(flags) and not {"--cfg", "-c"} & set(flags):
        found.append(f"{', '.join(OF_CFG)}: say what `--cfg job` prints, and do nothing without it")
    return flags, settings


def sweep_problems(flags: list[str], settings: list[str]) -> list[str]:
    """What is wrong with a command line that asks for several runs."""
    found = []
    if not set(SWEEP_FLAGS) & set(flags):
        found.append("several values for one setting are a sweep: add -m (or quote a value that holds a comma)")
    if any(setting.startswith("resume=") for setting in settings):
        found.append("resume: a sweep makes several runs; init_from=… starts each from the weights of one")
    return found


def train_all(points: list[Point], runs: list[ComposedRun]) -> None:
    """Train the one run, or sweep. Leaves with the exit code of a signal that ended training."""
    with importing():
        from training.run import train
        from training.sweep import sweep

    try:
        if len(runs) == 1:
            train(runs[0].config, runs[0].changes)
        else:
            sweep(points, [run.config for run in runs])
    except Interrupted as interrupted:
        raise SystemExit(interrupted.exit_code) from None
