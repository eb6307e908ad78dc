"""What `python train.py …` does with its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from training.command_line import (
    CONFIGS,
    all_keys,
    compose_config,
    describe_settings,
    fail,
    parse,
    run_guarded,
    value_problems,
)
from training.config import TrainConfig, problems
from training.errors import UserError

FREE_ON_RESUME = (
    "resume", "optim", "schedule", "trainer", "attention", "model.dropout", "model.attention_dropout",
    "data.path", "data.valid_path", "data.test_path", "data.cache",
)  # fmt: skip
"""What a resumed run may change; anything else would make it another run, which `init_from` starts."""

FLAGS_WITH_VALUE = ("--cfg", "-c", "--package", "-p", "--info", "-i", "--config-dir", "-cd")
"""Flags of Hydra whose value is an argument of its own."""

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
    """Check all arguments, report all problems at once, then let Hydra compose and run (once, or once per sweep point)."""
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        run_guarded(print_help)
        return
    flags, settings = split_flags(arguments)
    config, overrides, found = compose_config("train", TrainConfig, settings)
    if config is not None:
        run_guarded(lambda: check(config, overrides, found))
    if found:
        fail(found)
    sys.argv[1:] = flags + overrides
    hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")(job)()


def split_flags(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Hydra's own flags with their values (`-m`, `--cfg job`), and the settings."""
    flags, settings = [], []
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            settings.append(argument)
            continue
        flags.append(argument)
        if argument in FLAGS_WITH_VALUE:
            flags += [value for value in [next(remaining, None)] if value is not None]
    return flags, settings


def check(config: DictConfig, overrides: list[str], found: list[str]) -> None:
    """Add the problems of the config as a whole to `found`."""
    if config.resume:
        resumed, _ = resume_config(config, overrides, found)
        found += problems(resumed)
    else:
        found += problems(to_dataclass(config))


def job(config: DictConfig) -> float | None:
    """One run: what Hydra calls with the composed config. Returns the best validation loss, for sweeps."""
    result: list[float] = []

    def train_it() -> None:
        from training.run import train

        found: list[str] = []
        changes: list[str] = []
        if config.resume:
            checked, changes = resume_config(config, list(HydraConfig.get().overrides.task), found)
        else:
            checked = to_dataclass(config)
        found += problems(checked)
        if found:
            fail(found)
        result.append(train(checked, changes))

    run_guarded(train_it)
    return result[0] if result else None


def to_dataclass(config: DictConfig) -> TrainConfig:
    """The composed config as the dataclass that the program works with."""
    converted = OmegaConf.to_object(config)
    assert isinstance(converted, TrainConfig)
    return converted


def resume_config(composed: DictConfig, overrides: list[str], found: list[str]) -> tuple[TrainConfig, list[str]]:
    """The saved config of the run to go on with, new overrides applied -> (config, what changed); problems go to `found`."""
    from training.run_folder import load_config

    run = Path(composed.resume)
    saved = load_config(run)
    before = OmegaConf.structured(saved)
    config = OmegaConf.structured(saved)
    keys = all_keys(TrainConfig)
    for text in overrides:
        override = parse(text, found)
        if override is None:
            continue
        key = override.key_or_group
        if not any(key == free or key.startswith(free + ".") for free in FREE_ON_RESUME):
            found.append(f"{key}: cannot change on resume; init_from={run} starts a new run from its weights")
        elif (CONFIGS / key).is_dir():
            config[key] = composed[key]
        else:
            found += [problem for problem in value_problems(config, override, keys) if problem not in found]
    config.resume = str(run)
    changes = [
        f"{key}={OmegaConf.select(config, key)} (was {OmegaConf.select(before, key)})"
        for key in keys
        if key != "resume"
        and not OmegaConf.is_config(OmegaConf.select(config, key))
        and OmegaConf.select(config, key) != OmegaConf.select(before, key)
    ]
    resumed = to_dataclass(config)
    if not run.is_dir():
        raise UserError(f"resume={run}: no such run folder")
    return resumed, changes


def print_help() -> None:
    """Every group and every setting with its default and its documentation."""
    groups = {
        path.name: sorted(file.stem for file in path.glob("*.yaml"))
        for path in sorted(CONFIGS.iterdir())
        if path.is_dir()
    }
    config, _, _ = compose_config("train", TrainConfig, [])
    assert config is not None
    shown = "\n".join(f"  {name:12s}{', '.join(options)}" for name, options in groups.items())
    print(HELP.format(experiment=", ".join(groups.get("experiment", [])), groups=shown))
    print("\n".join(describe_settings(TrainConfig, to_dataclass(config))))
