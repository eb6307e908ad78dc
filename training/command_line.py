"""Command line of `train.py`: print help or the composed config, or return the runs to train."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import hydra
from hydra.core.config_store import ConfigStore
from tqdm import tqdm

from configs.compose import CONFIGS, all_keys, normalise
from configs.errors import UserError
from configs.help import train_help
from configs.plugin_settings import is_for_hydra, plugin_problems
from configs.program import importing
from configs.sweep_points import as_settings, sweep_points
from training.config import TrainConfig
from training.new_or_resumed_run import ComposedRun, compose_run
from training.run_folder.saved_config import to_yaml

SWEEP_FLAGS = ("-m", "--multirun")
CFG_FLAGS = ("--resolve", "--package", "-p")
FLAGS = ("--resolve", "--version", "--hydra-help")
_CFG = ("job", "hydra", "all")
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
FLAGS_WITH_VALUE = {"--cfg": _CFG, "-c": _CFG, "--info": _INFO, "-i": _INFO, "--package": (), "-p": ()}
"""Hydra flags that are passed through; those in FLAGS_WITH_VALUE consume the next argument, one of these choices (none:
any text)."""

INSTEAD = {
    "hydra.job.chdir": "the program stays in the folder where it was started, so that paths keep their meaning",
    "hydra.run.": "the folder of a run is chosen by runs=FOLDER and name=NAME",
    "hydra.sweep.": "the folder of a sweep is chosen by runs=FOLDER, and the names in it by the settings that vary",
    "hydra.output_subdir": "a run folder contains its config.yaml",
    "hydra.job.name": "the name of a run is chosen by name=NAME",
    "hydra.verbose": "the log of a run is log.txt in its folder",
    "hydra.job_logging": "the log of a run is log.txt in its folder",
    "hydra/job_logging": "the log of a run is log.txt in its folder",
}
"""What this program does instead of settings of Hydra, by the beginning of their names."""

ONE_PROCESS = "a sweep trains with one process: start torchrun once for each run, without -m"


def requested_runs(arguments: Sequence[str], processes: int = 1) -> list[ComposedRun]:
    """Compose and check the requested runs: one, or all runs of a sweep. If help or the config is requested, print it
    and return []. Raises UserError with all problems. processes: those that train together."""
    if {"--help", "-h"} & set(arguments):
        print(train_help(TrainConfig))
        return []
    messages: list[str] = []
    flags, settings = split_flags(arguments, messages)
    settings = [normalise(setting) for setting in settings]
    points = sweep_points(settings, messages)
    if len(points) > 1:
        messages += sweep_problems(flags, settings)
        if processes > 1:
            messages.append(ONE_PROCESS)
    bar = tqdm(points, desc="checking", unit="run", disable=None if len(points) > 1 else True, delay=2, leave=False)
    runs = [replace(compose_run(point.settings), varied=point.varied) for point in bar]
    messages += [problem for run in runs for problem in run.problems]
    if messages:
        raise UserError(*dict.fromkeys(messages))
    others = [flag for flag in flags if flag not in SWEEP_FLAGS]
    if others in (["--cfg", "job"], ["-c", "job"]):
        print("---\n".join(to_yaml(run.config) for run in runs), end="")
        return []
    if others:
        show(flags + settings)
        return []
    check_different(runs)
    return runs


def show(arguments: list[str]) -> None:
    """Let Hydra print what its flags request: the config, or what it has found."""
    ConfigStore.instance().store(name="train_schema", node=TrainConfig)
    sys.argv[1:] = arguments
    hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")(lambda config: None)()


def split_flags(arguments: Sequence[str], messages: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into Hydra's flags with their values (`-m`, `--cfg job`) and the settings."""
    flags: list[str] = []
    settings: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            settings.append(argument)
        elif argument in SWEEP_FLAGS + FLAGS:
            flags.append(argument)
        elif argument in FLAGS_WITH_VALUE:
            value = next(remaining, "")
            flags += [argument, value]
            choices = FLAGS_WITH_VALUE[argument]
            if value not in (choices or {value} - {""}):
                messages.append(f"{argument} {value}: must be followed by {' or '.join(choices) or 'a package'}")
        else:
            messages.append(
                f"{argument}: no such flag; settings are written key=value without dashes, --help lists them"
            )
    if set(CFG_FLAGS) & set(flags) and not {"--cfg", "-c"} & set(flags):
        messages.append(
            f"{', '.join(CFG_FLAGS)}: only affect the output of `--cfg job`; add --cfg job or remove the flag"
        )
    return flags, settings


def swept_by_hydra(arguments: Sequence[str], train: Callable[[TrainConfig], object], processes: int = 1) -> bool:
    """Run a sweep with Hydra's plugins and return True, if the command line requests that. Raises UserError.
    processes: those that train together."""
    settings = hydra_settings(arguments, processes)
    others = [flag for flag in split_flags(arguments, [])[0] if flag not in SWEEP_FLAGS]
    if settings and others:  # `--cfg hydra`: the options of the plugins
        show([*others, *filter(is_for_hydra, settings)])
    elif settings:
        with importing():
            from training.hydra_sweep import hydra_sweep
        hydra_sweep(settings, train)
    return bool(settings)


def hydra_settings(arguments: Sequence[str], processes: int = 1) -> list[str]:
    """Return the settings of a sweep that Hydra's plugins run; [] if the command line requests none. Raises
    UserError."""
    if not any(map(is_for_hydra, arguments)) or {"--help", "-h"} & set(arguments):
        return []
    messages: list[str] = []
    flags, settings = split_flags(arguments, messages)
    for key in (setting.partition("=")[0].lstrip("+") for setting in settings):
        messages += [f"{key}: is not used here: {does}" for start, does in INSTEAD.items() if key.startswith(start)]
    if messages:
        raise UserError(*messages)
    if not set(SWEEP_FLAGS) & set(flags):
        messages.append("hydra/sweeper, hydra/launcher: choose how a sweep is run; add -m")
        flags = [*flags, *SWEEP_FLAGS]  # which is enough advice
    if processes > 1:
        messages.append(ONE_PROCESS)
    messages += [f"{flag}: cannot be combined with a sweep by Hydra's plugins" for flag in flags if flag in FLAGS]
    messages += sweep_problems(flags, settings)
    normal = [normalise(setting) for setting in settings]
    refused = plugin_problems(normal, all_keys(TrainConfig))
    if messages := refused or messages:
        raise UserError(*messages)
    return [setting if is_for_hydra(setting) else normalise(setting) for setting in settings]


def sweep_problems(flags: list[str], settings: list[str]) -> list[str]:
    """Return the problems of a command line that requests a sweep."""
    messages = []
    if not set(SWEEP_FLAGS) & set(flags):
        messages.append("several values for one setting make a sweep: add -m (or quote a value that contains a comma)")
    if any(setting.startswith("resume=") for setting in settings):
        messages.append("resume: a sweep trains several new runs; use init_from=… to start each from existing weights")
    return messages


def check_different(runs: Sequence[ComposedRun]) -> None:
    """Raise UserError if two runs have the same config: `seed=1,1`, `1e-3,0.001`, or `seed=1,2 seed=3`."""
    first_of_each: dict[str, ComposedRun] = {}
    for run in runs:
        same = first_of_each.setdefault(repr(run.config), run)
        if same is not run:
            raise UserError(f"{as_settings(same.varied)} and {as_settings(run.varied)} are the same run: remove one")
