"""Train and rank all runs of a sweep; a failed run does not stop the others."""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from configs.errors import UserError
from configs.program import complain, expanded, messages_of
from configs.sweep_points import as_settings
from training.config import TrainConfig
from training.hardware.reproducibility import process_settings_restored
from training.new_or_resumed_run import ComposedRun
from training.run_folder.log import METRICS, duration
from training.run_folder.name_and_lock import base_name
from training.run_folder.terminal import print_line

RANKED_BY = ("step", "val/loss", "val/bits_per_byte")
"""Metrics of an evaluation that the ranking shows."""


@dataclass(frozen=True)
class Outcome:
    """Result of one run of a sweep."""

    varied: dict[str, str]
    run: Path
    seconds: float
    failure: str | None
    best: dict[str, float]
    """`RANKED_BY` metrics of the evaluation with the lowest validation loss; empty without evaluations."""

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key: best run first, failures last. Only bits per byte are comparable across tokenizers."""
        return self.failure is not None, self.best.get("val/bits_per_byte", math.inf)

    @property
    def figures(self) -> list[str]:
        """Table cells: best loss in nats per token and bits per byte, its step, run time, and run folder or error."""
        best, took = self.best, duration(self.seconds)
        if self.failure:
            return ["failed", "", "", took, f"{self.run}: {self.failure}" if self.run.exists() else self.failure]
        if not best:
            return ["", "", "", took, str(self.run)]
        return [f"{best['val/loss']:.4f}", f"{best['val/bits_per_byte']:.4f}", f"{best['step']}", took, str(self.run)]


def sweep(runs: Sequence[ComposedRun], train: Callable[[TrainConfig], object]) -> None:
    """Train and rank every run; a failed run does not stop the sweep. Raises UserError at the end if any run failed."""
    outcomes: list[Outcome] = []
    try:
        for number, run in enumerate(runs, 1):
            print_line(f"\nrun {number} of {len(runs)}: {as_settings(run.varied)}")
            outcomes.append(train_point(run.config, run.varied, train))
            gc.collect()  # frees the reference cycle of trainer and model before the next run
    finally:
        if outcomes:
            print_line("\n" + "\n".join(ranking(outcomes)))
    if failed := sum(outcome.failure is not None for outcome in outcomes):
        raise UserError(f"{failed} of {len(runs)} runs failed")


def train_point(config: TrainConfig, varied: dict[str, str], train: Callable[[TrainConfig], object]) -> Outcome:
    """Train one run under a name of its own and return its outcome, even if it fails."""
    started, failure = time.perf_counter(), None
    config = reserved(config, varied)
    best: dict[str, float] = {}
    run = expanded(config.runs) / str(config.name)
    try:
        with process_settings_restored():
            train(config)
        best = best_evaluation(run)
    except (UserError, OSError) as error:
        failure = "; ".join(messages_of(error))
        complain(failure)
    except Exception as error:  # a bug in one run must not stop the remaining runs
        failure = " ".join(f"{type(error).__name__}: {error}".split())
        traceback.print_exc()
    finally:
        with suppress(OSError):
            run.rmdir()  # of a run that ended before it wrote a file; any other is not empty
    return Outcome(varied, run, time.perf_counter() - started, failure, best)


def best_evaluation(run: Path) -> dict[str, float]:
    """Return the `RANKED_BY` metrics of the lowest validation loss, or {}; UserError if metrics.jsonl is damaged."""
    path = run / METRICS
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        evaluations = [{key: json.loads(line)[key] for key in RANKED_BY} for line in lines]
        return min(evaluations, key=lambda record: record["val/loss"], default={})
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path}: damaged, the run cannot be ranked ({error})") from error


def reserved(config: TrainConfig, varied: dict[str, str]) -> TrainConfig:
    """Name a run and create its empty folder, so that no other run of the sweep, in any process, takes the name."""
    while True:
        named = replace(config, name=run_name(config, varied))
        run = expanded(named.runs) / str(named.name)
        try:
            run.mkdir(parents=True)
        except FileExistsError:
            if os.path.lexists(run):  # else `runs` is a link that leads nowhere
                continue
        except OSError:
            pass
        return named  # training reports what is wrong with the folder


def run_name(config: TrainConfig, varied: dict[str, str]) -> str:
    """Return an unused folder name that lists the varied settings: `gpt-text-lr-0.003`."""
    base = base_name(config)
    in_base = () if config.name else ("experiment",) if config.experiment else ("task", "data")
    labels = zip(short_keys(varied), varied.values(), strict=True)
    parts = [f"{label}-{value}" for label, value in labels if label not in in_base]
    full = "-".join([base, *(re.sub(r"[^\w.+-]+", "_", part).strip("_") for part in parts)])[:80]
    names = (full if number == 1 else f"{full}-{number}" for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(expanded(config.runs) / name))


def short_keys(keys: Iterable[str]) -> list[str]:
    """Shorten each key to its last part unless that is ambiguous: `lr`, but `optim-kind` and `schedule-kind`."""
    parts = [key.split(".") for key in keys]
    last = [names[-1] for names in parts]
    return [names[-1] if last.count(names[-1]) == 1 else "-".join(names) for names in parts]


def ranking(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the ranking as lines of a table, best run first and failures last, and the best run's settings."""
    ranked = sorted(outcomes, key=lambda outcome: outcome.rank)
    header = [*short_keys(outcomes[0].varied), "loss", "bits/byte", "step", "time", "run"]
    rows = [header, *([*outcome.varied.values(), *outcome.figures] for outcome in ranked)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines if ranked[0].failure else [*lines, f"best: {as_settings(ranked[0].varied)}"]
