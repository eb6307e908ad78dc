"""Sweeps by Hydra's plugins: a sweeper such as Optuna's chooses the settings, a launcher such as joblib runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from configs.compose import CONFIGS, parse_override
from configs.errors import UserError
from configs.sweep_points import as_settings
from training.command_line import is_for_hydra
from training.composed_run import compose_run
from training.config import TrainConfig
from training.run_folder.terminal import print_line
from training.sweep import run_name, train_point


def hydra_sweep(settings: Sequence[str], train: Callable[[TrainConfig], object]) -> None:
    """Run a sweep with the sweeper and the launcher that `settings` name. Raises UserError.

    A sweeper minimises the lowest validation loss of a run in bits per byte, which is comparable across tokenizers.
    """
    found: list[str] = []
    swept = tuple(key for key, override in _overrides(settings, found) if override.is_sweep_override())
    fixed = [each for each in settings if not is_for_hydra(each) and each.partition("=")[0].lstrip("+") not in swept]
    if found := found + compose_run(fixed).problems:
        raise UserError(*found)
    ConfigStore.instance().store(name="train_schema", node=TrainConfig)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise errors instead of printing them and exiting with code 1
    sys.argv[1:] = ["-m", *settings]
    try:
        hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")(_Task(train, swept))()
    except (HydraException, OmegaConfBaseException) as error:
        plugins = "the sweepers and launchers are plugins: pip install 'chumoku[sweeps]'"
        raise UserError(f"{str(error).strip().splitlines()[0]} ({plugins})") from None


def _overrides(settings: Sequence[str], found: list[str]) -> Iterator[tuple[str, Override]]:
    for setting in settings:
        if (override := parse_override(setting, found)) is not None:
            yield override.key_or_group, override


@contextmanager
def _no_hydra() -> Iterator[None]:
    """Set the running Hydra aside, since it composes only one config at a time."""
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().clear()
        if running is not None:
            GlobalHydra.instance().initialize(running)


@dataclass
class _Task:
    """Trains one run of a sweep; an object, since launchers send it to other processes."""

    train: Callable[[TrainConfig], object]
    swept: tuple[str, ...]

    def __call__(self, composed: DictConfig) -> float:
        """Return the lowest validation loss in bits per byte. Raises UserError."""
        settings = list(HydraConfig.get().overrides.task)
        with _no_hydra():
            run = compose_run(settings)
        if run.problems:
            raise UserError(*run.problems)
        values = {key.lstrip("+"): value for key, _, value in (each.partition("=") for each in settings)}
        varied = {key: _short(values[key]) for key in self.swept if key in values}
        named = replace(run.config, name=run_name(run.config, varied))
        outcome = train_point(named, varied, self.train)
        if outcome.failure or not outcome.best:
            raise UserError(outcome.failure or f"{outcome.run}: was not evaluated")
        loss = outcome.best["val/bits_per_byte"]
        print_line(f"{as_settings(varied)}: {loss:.4f} bits per byte in {outcome.run}\n")
        return loss


def _short(value: str) -> str:
    """Round a drawn number to four digits, for the name of a run."""
    try:
        return value if value.isdigit() else f"{float(value):.4g}"
    except ValueError:
        return value
