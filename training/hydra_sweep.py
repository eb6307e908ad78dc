"""Sweeps by Hydra's plugins: a sweeper such as Optuna's chooses the settings, a launcher such as joblib runs them."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from configs.compose import CONFIGS, compose_config, parse_override, quoted
from configs.errors import UserError
from configs.plugin_settings import is_for_hydra
from configs.program import complain, expanded
from configs.sweep_points import as_settings
from training.config import TrainConfig
from training.new_or_resumed_run import ComposedRun, compose_run
from training.run_folder.terminal import print_line
from training.sweep import train_point


def hydra_sweep(settings: Sequence[str], train: Callable[[TrainConfig], object]) -> None:
    """Run a sweep with the sweeper and the launcher that `settings` name. Raises UserError.

    A sweeper minimises the lowest validation loss of a run in bits per byte, which is comparable across tokenizers.
    """
    messages: list[str] = []
    settings = _without_replaced(settings, messages)
    parsed = {_key(setting): parse_override(setting, []) for setting in settings}
    sweeps = {
        key: override for key, override in parsed.items() if override is not None and override.is_sweep_override()
    }
    fixed = [setting for setting in settings if not is_for_hydra(setting) and _key(setting) not in sweeps]
    composed = _checked(fixed, sweeps, messages)
    runs = expanded(composed.config.runs)
    new = not runs.exists()
    runs.mkdir(parents=True, exist_ok=True)
    failures = runs / f".sweep-{uuid.uuid4().hex[:8]}"
    settings = [*settings, f"hydra.sweep.dir={quoted(str(runs))}"]
    sweeper = parsed.get("hydra/sweeper")
    if sweeper is not None and sweeper.value() == "optuna" and "hydra.sweeper.max_failure_rate" not in parsed:
        settings.append("hydra.sweeper.max_failure_rate=1")  # the default ends the sweep at the first failure
    ConfigStore.instance().store(name="train_schema", node=TrainConfig)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise errors instead of printing them and exiting with code 1
    sys.argv[1:] = ["-m", *settings]
    task = _Task(train, tuple(sweeps), failures)
    try:
        hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")(task)()
    except (HydraException, OmegaConfBaseException) as error:
        plugins = "the sweepers and launchers are plugins: pip install 'chumoku[sweeps]'"
        raise UserError(f"{str(error).strip().splitlines()[0]} ({plugins})") from None
    except Exception:
        if not failures.exists():  # else the sweeper passes on a failure, or finds no best run
            raise
    finally:
        failed = len(failures.read_bytes()) if failures.exists() else 0
        failures.unlink(missing_ok=True)
        if new and not any(runs.iterdir()):
            runs.rmdir()
    if failed:
        raise UserError(f"{failed} {'run' if failed == 1 else 'runs'} of the sweep failed")


def _checked(fixed: Sequence[str], sweeps: Mapping[str, Override], messages: list[str]) -> ComposedRun:
    """Return the run of the fixed settings. Raises UserError for `messages`, for listed values that a setting cannot
    have, at which Hydra would end the sweep, and for problems that no drawn value solves."""
    values = {key: list(_values(override)) for key, override in sweeps.items()}
    for key, listed in values.items():
        for value in listed:
            messages += compose_config("train", TrainConfig, [f"{key}={value}"])[1]
    composed = compose_run(list(fixed))
    if composed.problems and not messages:  # of an unsuitable default, which is swept?
        first = compose_run([*fixed, *(f"{key}={listed[0]}" for key, listed in values.items() if listed)])
        messages += [problem for problem in composed.problems if problem in first.problems]
    if messages:
        raise UserError(*dict.fromkeys(messages))
    return composed


def _values(override: Override) -> Iterator[str]:
    """Yield the values of a choice, the first of a range, or the ends of an interval."""
    value = override.value()
    if isinstance(value, IntervalSweep):
        yield from (str(value.start), str(value.end))
    elif isinstance(value, ChoiceSweep | RangeSweep):
        yield from islice(override.sweep_string_iterator(), 1 if isinstance(value, RangeSweep) else None)


def _key(setting: str) -> str:
    return setting.partition("=")[0].lstrip("+")


def _without_replaced(settings: Sequence[str], messages: list[str]) -> list[str]:
    """Return the settings without those that a later sweep of the same key replaces; a value after a sweep would make
    all its runs equal: its problem is added to `messages`."""
    overrides = [(_key(setting), parse_override(setting, messages)) for setting in settings]
    remaining = []
    for number, (setting, (key, override)) in enumerate(zip(settings, overrides, strict=True)):
        sweeps = override is not None and override.is_sweep_override()
        later = [
            later_override
            for name, later_override in overrides[number + 1 :]
            if name == key and later_override is not None
        ]
        if sweeps and later and not later[-1].is_sweep_override():
            messages.append(f"{key}={later[-1].value()}: replaces all values of {setting}: remove one of them")
        if not any(later_override.is_sweep_override() for later_override in later):
            remaining.append(setting)
    return remaining


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
    failures: Path
    """File with a byte for each run that has failed."""

    def __call__(self, composed: DictConfig) -> float:
        """Return the lowest validation loss in bits per byte. Raises UserError, after the error was printed."""
        try:
            return self.loss(list(HydraConfig.get().overrides.task))
        except Exception:
            with self.failures.open("ab") as file:
                file.write(b"x")
            raise

    def loss(self, settings: list[str]) -> float:
        """Train with these settings and return the loss."""
        with _no_hydra():
            run = compose_run(settings)
        if run.problems:
            for problem in run.problems:
                complain(problem)
            raise UserError(*run.problems)
        values = {key.lstrip("+"): value for key, _, value in (setting.partition("=") for setting in settings)}
        varied = {key: _short(values[key]) for key in self.swept if key in values}
        outcome = train_point(run.config, varied, self.train)
        if outcome.failure:
            raise UserError(outcome.failure)
        loss = outcome.best.get("val/bits_per_byte")
        if loss is None:
            complain(problem := f"{outcome.run}: has no validation loss")
            raise UserError(problem)
        print_line(f"{as_settings(varied)}: {loss:.4f} bits per byte in {outcome.run}\n")
        return loss


def _short(value: str) -> str:
    """Round a drawn number to four digits, for the name of a run."""
    try:
        return value if value.isdigit() else f"{float(value):.4g}"
    except ValueError:
        return value
