"""Expand a command line into the runs that it requests: one, or one for each combination of a sweep's values."""

from __future__ import annotations

import itertools
import math
import shlex
from dataclasses import dataclass

from configs.compose import parse_override

LARGEST_SWEEP = 1000
"""Maximum number of runs in a sweep; more are probably a mistake."""


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    settings: list[str]
    """All settings of the run, with one value each."""
    varied: dict[str, str]
    """The values of the settings that vary in the sweep."""


def sweep_points(settings: list[str], problems: list[str]) -> list[Point]:
    """Return the runs that the settings request, one for each combination of values; add problems to `problems`."""
    choices: list[list[str]] = []
    several: list[str] = []
    for setting in settings:
        override = parse_override(setting, problems)
        if override is None:
            continue
        key = setting.partition("=")[0]
        if not override.is_sweep_override():
            choices.append([setting])
            continue
        try:
            listed = list(itertools.islice(override.sweep_string_iterator(), LARGEST_SWEEP + 1))
        except Exception:  # interval() and glob() need other Hydra sweepers; a range may be infinite
            problems.append(f"{setting}: cannot be counted; name the values, {key}=A,B,C, or write range(FROM,TO)")
            continue
        if not listed:
            problems.append(f"{setting}: contains no values")
        choices.append([f"{key}={value}" for value in listed])
        if len(listed) > 1:
            several.append(key.lstrip("+"))
    if math.prod(map(len, choices)) > LARGEST_SWEEP:
        problems.append(f"a sweep of more than {LARGEST_SWEEP} runs: give fewer values")
        return []
    points = []
    for chosen in itertools.product(*choices):
        values = {key.lstrip("+"): value for key, _, value in (setting.partition("=") for setting in chosen)}
        points.append(Point(list(chosen), {key: values[key] for key in several}))
    return points


def as_settings(varied: dict[str, str]) -> str:
    """Format the settings of a point, as typed on a command line."""
    return " ".join(shlex.quote(f"{key}={value}") for key, value in varied.items())
