"""The settings of Hydra that a command line may contain: the choice of a sweeper and a launcher, and their options.

Everything else of Hydra can add configurations or code: `hydra.searchpath`, callbacks, handlers of its log, and
`_target_` anywhere, which names a function to call. It is refused, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, Override

from configs.compose import GROUPS, parse_override, suggestion

PLUGIN = re.compile(r"hydra/(sweeper|launcher|sweeper/sampler)")
"""Groups of which one is chosen by its name."""
NAME = re.compile(r"\w+")
"""Name of a choice; one with a slash could be any file."""
OPTION = re.compile(r"hydra\.(sweeper|launcher)\.[\w./-]+")
"""An option of the chosen sweeper or launcher."""
CODE = re.compile(
    r"_.*|hydra|params|(custom_)?search_space|python|setup|teardown|prolog|epilog|export.*|wrap|chdir|.*commands?"
    r"|\w+_args",
    re.IGNORECASE,
)
"""Parts of options that name a function or a shell command (Optuna, submitit, Slurm), or lead back to the command line
of Hydra. What is swept is written as a setting of its own."""


def is_for_hydra(setting: str) -> bool:
    """Whether an argument sets Hydra itself: one of its sweepers or launchers, which then runs the sweep, or what is
    refused."""
    return re.match(r"[+~]*hydra\b|[^=]*[@:]_?(global_\.)?hydra\b", setting) is not None


def plugin_problems(settings: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the problems of the settings that Hydra reads before `compose_run` checks them: its own, and swept ones.

    keys: all settings of the program.
    """
    problems: list[str] = []
    chosen: dict[str, Any] = {}
    for setting in settings:
        key = setting.partition("=")[0].lstrip("+~")
        if (override := parse_override(setting, problems)) is None:
            continue
        if is_for_hydra(setting):
            chosen[key] = override.value()
            if (reason := _refusal(key, chosen[key], override.is_sweep_override())) is not None:
                problems.append(f"{key}: {reason}; of Hydra's settings only its sweepers and launchers can be set")
        elif override.is_sweep_override():
            problems += _swept_problems(key, override, keys)
    if chosen.get("hydra/sweeper/sampler") == "cmaes" and chosen.get("hydra.sweeper.storage") is not None:
        reason = "is refused with hydra/sweeper/sampler=cmaes, whose states in a storage are pickles"
        problems.append(f"hydra.sweeper.storage: {reason}")
    return problems


def _refusal(key: str, value: Any, swept: bool) -> str | None:
    """Return why a setting of Hydra is refused, or None."""
    if PLUGIN.fullmatch(key):
        return None if not swept and NAME.fullmatch(str(value)) else "must be the name of a plugin"
    if not OPTION.fullmatch(key) or swept:
        return "is refused, because it can add configurations or code"
    nested = list(_nested(value))
    for part in (key.split(".", 2)[2], *(str(part) for item in nested if isinstance(item, dict) for part in item)):
        for word in re.split(r"[./@+~]", part):
            if CODE.fullmatch(word):
                return f"'{word}' is refused, because it can run code"
    if key == "hydra.sweeper.storage" and str(value).startswith("redis"):
        return "Redis is refused, because Optuna stores pickles there"
    if any("\n" in item for item in nested if isinstance(item, str)):
        return "a line break is refused, because it can run code"
    return "${…} is refused, because it can read other settings" if "${" in str(value) else None


def _nested(value: Any) -> Iterator[Any]:
    """Yield a value and the values in it, at all depths."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nested(inner)


def _swept_problems(key: str, override: Override, keys: Sequence[str]) -> list[str]:
    """Return the problems of a swept setting: the choice of a group could be a file anywhere, which sets Hydra too."""
    group = override.key_or_group
    if override.package is not None or group not in (*GROUPS, *keys):
        return [f"{key}: unknown setting{suggestion(key, list(keys))}; --help lists all"]
    if group not in GROUPS:
        return []
    listed = isinstance(override.value(), ChoiceSweep)
    chosen = list(override.sweep_string_iterator()) if listed else [str(override.input_line).partition("=")[2]]
    wrong = [choice for choice in chosen if choice not in GROUPS[group]]
    return [f"{key}={choice}: no such choice; there are {', '.join(GROUPS[group])}" for choice in wrong]
