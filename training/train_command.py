"""What `python train.py …` does with its arguments."""

from __future__ import annotations

import itertools
import sys
from typing import cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from configs.program import expanded, importing
from training.command_line import (
    CONFIGS,
    all_keys,
    compose_config,
    describe_settings,
    normalise,
    parse,
    run_guarded,
    value_problems,
)
from training.config import TrainConfig, problems
from training.errors import UserError
from training.literals import literal
from training.saved_config import load_config, to_omegaconf

FREE_ON_RESUME = (
    "resume", "optim", "schedule", "trainer", "attention", "model.dropout", "model.attention_dropout",
    "data.path", "data.valid_path", "data.test_path", "data.cache",
)  # fmt: skip
"""What a resumed run may change; anything else would make it another run, which `init_from` starts."""

SETTINGS_OF_A_START = ("experiment", "name", "runs", "init_from")
"""What has no meaning once a run exists; ignored on resume."""

FROM_ORIGIN = ("model", "tokenizer")
"""What a run with `init_from` takes from the run that it starts from, dropout excepted."""

FLAGS = ("-m", "--multirun", "--resolve", "--version", "--hydra-help")
FLAGS_WITH_VALUE = ("--cfg", "-c", "--package", "-p", "--info", "-i")
"""Flags of Hydra that are passed on; the second kind takes a value of its own."""

HELP = """Train a small transformer: a GPT that writes, or an encoder-decoder that translates.

  python train.py                                     GPT on the embedded corpus
  python train.py task=translate                      English to Japanese on the embedded corpus
  python train.py +experiment=NAME data.path=…        a recipe: {experiment}
  python train.py data=text data.path=book.txt        your own text; data=pairs for sentence pairs
  python train.py resume=runs/NAME                    go on where it stopped
  python train.py -m optim.lr=1e-3,3e-4               a sweep
  python train.py --cfg job …                         print the composed config and stop

Groups (choose with group=choice):
{groups}

Settings (change with key=value):"""


def train_command() -> None:
    """Run `train.py`."""
    arguments = sys.argv[1:]
    run_guarded(print_help if {"--help", "-h"} & set(arguments) else lambda: execute(arguments))


def execute(arguments: list[str]) -> None:
    """Check all arguments, report all problems at once, then let Hydra compose and run (once, or once per sweep point)."""
    found: list[str] = []
    flags, settings = split_flags(arguments, found)
    points = sweep_points([normalise(setting) for setting in settings], found)
    if len(points) > 1:
        if not {"-m", "--multirun"} & set(flags):
            found.append("several values for one setting are a sweep: add -m (or quote a value that holds a comma)")
        if any(setting.startswith("name=") for setting in settings):
            found.append("name: a sweep makes several runs; leave the name out and each gets its own")
    for point in points:
        for problem in point_problems(point):
            if problem not in found:
                found.append(problem)
    if found:
        raise UserError(*found)
    sys.argv[1:] = flags + [normalise(setting) for setting in settings]
    hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")(job)()


def split_flags(arguments: list[str], found: list[str]) -> tuple[list[str], list[str]]:
    """Hydra's own flags with their values (`-m`, `--cfg job`), and the settings."""
    flags: list[str] = []
    settings: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            settings.append(argument)
        elif argument in FLAGS:
            flags.append(argument)
        elif argument in FLAGS_WITH_VALUE:
            flags += [argument, next(remaining, "")]
        else:
            found.append(f"{argument}: no such flag; settings are written key=value without dashes, --help lists them")
    return flags, settings


def sweep_points(settings: list[str], found: list[str]) -> list[list[str]]:
    """The settings of every run of a sweep; a single one without a sweep. Of very large sweeps the first hundred."""
    choices: list[list[str]] = []
    for setting in settings:
        override = parse(setting, found)
        if override is None:
            continue
        if override.is_sweep_override():
            prefix = setting.partition("=")[0]
            choices.append([f"{prefix}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([setting])
    return [list(point) for point in itertools.islice(itertools.product(*choices), 100)]


def point_problems(settings: list[str]) -> list[str]:
    """Everything that is wrong with one run's settings."""
    config, found = compose_config("train", TrainConfig, settings)
    if config is not None:
        try:
            if config.resume and config.init_from:
                found.append(
                    "resume and init_from exclude each other: one goes on with a run, the other starts a new one from it"
                )
            elif config.resume:
                found += problems(resume_config(config, settings, found)[0])
            else:
                found += init_from_problems(config, settings) + problems(to_dataclass(config, settings))
        except UserError as error:
            found.append(str(error))
    return found


def job(config: DictConfig) -> float | None:
    """One run: what Hydra calls with the composed config. Returns the best validation loss, for sweeps."""
    result: list[float] = []

    def train_it() -> None:
        with importing():
            from training.run import train
        from training.progress import Interrupted

        # As they were given to Hydra: an element that is asked for would be unescaped.
        settings = cast(list[str], OmegaConf.to_container(HydraConfig.get().overrides.task))
        try:
            if config.resume:
                result.append(train(*resume_config(config, settings, [])))
            else:
                result.append(train(to_dataclass(config, settings)))
        except Interrupted as interrupted:
            raise SystemExit(interrupted.exit_code) from None

    run_guarded(train_it)
    return result[0] if result else None


def to_dataclass(config: DictConfig, settings: list[str]) -> TrainConfig:
    """The composed config as the dataclass that the program works with.

    `trainer.minutes` given alone is the whole budget: the default number of steps would end most such runs early.
    """
    try:
        converted = OmegaConf.to_object(config)
    except MissingMandatoryValue as error:
        raise UserError(
            f"{error.full_key}=???: three question marks stand for a missing value; a path can be ./???"
        ) from error
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {str(error).strip().splitlines()[0]}") from error
    assert isinstance(converted, TrainConfig)
    given = {setting.partition("=")[0] for setting in settings}
    if "trainer.minutes" in given and "trainer.steps" not in given and converted.trainer.minutes is not None:
        converted.trainer.steps = None
    return converted


def init_from_problems(config: DictConfig, settings: list[str]) -> list[str]:
    """Settings that contradict the run to start from; without them its shape and tokenizer are taken over."""
    if not config.init_from:
        return []
    origin = to_omegaconf(load_config(expanded(config.init_from)))
    keys = all_keys(TrainConfig)
    found = []
    if config.task != origin.task:
        found.append(f"init_from={config.init_from}: was trained with task={origin.task}; add task={origin.task}")
    for setting in settings:
        group = setting.partition("=")[0]
        for key in [key for key in keys if key == group or key.startswith(group + ".")]:
            mine, theirs = OmegaConf.select(config, key), OmegaConf.select(origin, key)
            taken_over = key.split(".")[0] in FROM_ORIGIN and key not in FREE_ON_RESUME
            if taken_over and not OmegaConf.is_config(mine) and mine != theirs:
                found.append(
                    f"{key}={mine}: init_from={config.init_from} was trained with {key}={theirs}; leave it out"
                )
    return found


def resume_config(composed: DictConfig, settings: list[str], found: list[str]) -> tuple[TrainConfig, list[str]]:
    """The saved config of the run to go on with, new settings applied -> (config, what changed); problems go to `found`."""
    run = expanded(composed.resume)
    saved = load_config(run)
    before, config = to_omegaconf(saved), to_omegaconf(saved)
    keys = all_keys(TrainConfig)
    for setting in settings:
        override = parse(setting, [])
        if override is None or override.key_or_group not in keys:
            continue  # reported when the settings were composed
        key = override.key_or_group
        if not any(key == free or key.startswith(free + ".") for free in FREE_ON_RESUME):
            # What the run has anyway may be repeated: the command that began it, say.
            repeated = key in SETTINGS_OF_A_START or OmegaConf.select(composed, key) == OmegaConf.select(before, key)
            if not repeated:
                found.append(f"{key}: cannot change on resume; init_from={run} starts a new run from its weights")
        elif (CONFIGS / key).is_dir():
            config[key] = composed[key]
        elif not override.is_add() and not override.is_delete():
            value_problems(config, override, keys)
    if config.optim.kind != before.optim.kind:
        found.append(
            f"optim.kind={config.optim.kind}: cannot change on resume; init_from={run} starts a new run from its weights"
        )
    config.resume = literal(str(run))
    changes = [
        f"{key}={OmegaConf.select(config, key)} (was {OmegaConf.select(before, key)})"
        for key in keys
        if key != "resume"
        and not OmegaConf.is_config(OmegaConf.select(config, key))
        and OmegaConf.select(config, key) != OmegaConf.select(before, key)
    ]
    return to_dataclass(config, []), changes


def print_help() -> None:
    """Every group and every setting with its default and its documentation."""
    folders = [path for path in sorted(CONFIGS.iterdir()) if path.is_dir()]
    groups = {path.name: sorted(file.stem for file in path.glob("*.yaml")) for path in folders}
    config, _ = compose_config("train", TrainConfig, [])
    assert config is not None
    shown = "\n".join(f"  {name:12s}{', '.join(options)}" for name, options in groups.items())
    print(HELP.format(experiment=", ".join(groups["experiment"]), groups=shown))
    print("\n".join(describe_settings(TrainConfig, to_dataclass(config, []))))
