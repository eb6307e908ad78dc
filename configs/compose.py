"""Compose the command line into a checked config with Hydra, and collect all problems."""

from __future__ import annotations

import copy
import difflib
import functools
import re
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.literals import literal
from configs.settings import NOT_A_SETTING, expected

CONFIGS = Path(__file__).resolve().parent

GROUPS = {
    folder.name: sorted(path.stem for path in folder.glob("*.yaml"))
    for folder in sorted(CONFIGS.iterdir())
    if any(folder.glob("*.yaml"))
}
"""The config groups and their choices."""

VERBATIM = (
    "data.path",
    "data.valid_path",
    "data.test_path",
    "data.cache",
    "data.subset",
    "data.revision",
    "data.train_split",
    "data.valid_split",
    "data.test_split",
    "data.text_column",
    "data.source_column",
    "data.target_column",
    "resume",
    "init_from",
    "neighbours.path",
    "run",
    "name",
    "runs",
)
"""Settings used verbatim, as they name the user's files and columns: Hydra rejects unquoted '=', ',' and Japanese."""

OTHER_NAMES = {
    "run": "name",
    "out_dir": "name",
    "learning_rate": "optim.lr",
    "max_iters": "trainer.steps",
    "max_steps": "trainer.steps",
    "eval_interval": "trainer.evaluate_every",
    "block_size": "model.context",
    "n_layer": "model.layers",
    "n_head": "model.heads",
    "n_embd": "model.width",
    "d_model": "model.width",
    "dtype": "trainer.precision",
    "max_new_tokens": "max_tokens",
    "num_beams": "beam_size",
}
"""What nanoGPT and transformers call settings of ours, and what users of generate.py try on train.py."""


def compose_config(
    name: str, schema: type, settings: list[str], *, groups_apply: bool = True
) -> tuple[DictConfig | None, list[str]]:
    """Compose `configs/<name>.yaml` with `settings` -> (config, problems). The caller expands sweeps.

    `groups_apply`: whether `key=choice` selects a file in `configs/<key>/`; if false, it is an ordinary value. Each
    setting is checked on its own against the dataclass, so that one pass finds all problems; valid settings are
    applied. The config is None only if the groups cannot be composed.
    """
    problems: list[str] = []
    groups: list[str] = []
    values: list[Override] = []
    for argument in map(normalise, settings):
        override = parse_override(argument, problems)
        if override is None:
            continue
        group = override.key_or_group
        if not groups_apply or group not in GROUPS:
            values.append(override)
        elif (choice := str(override.value())) in GROUPS[group]:
            groups.append(argument)
        else:
            near = suggestion(choice, GROUPS[group])
            problems.append(f"{argument}: no such choice{near}; there are {', '.join(GROUPS[group])}")
    try:
        config = copy.deepcopy(compose_groups(name, schema, tuple(groups)))
    except (HydraException, OmegaConfBaseException) as error:
        return None, [*problems, str(error).strip().splitlines()[0]]
    keys = all_keys(schema)
    for override in values:
        problems += value_problems(config, override, keys)
    return config, problems


@functools.cache
def compose_groups(name: str, schema: type, groups: tuple[str, ...]) -> DictConfig:
    """Compose `configs/<name>.yaml` with these group choices. Cached, as Hydra takes 90 ms for each run of a sweep."""
    ConfigStore.instance().store(name=f"{name}_schema", node=schema)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose(name, overrides=list(groups))


def normalise(argument: str) -> str:
    """Quote paths and `nan` for Hydra's grammar, and treat `experiment=x` as `+experiment=x`."""
    key, separator, value = argument.partition("=")
    if separator and key in VERBATIM and value not in ("", "null") and value[0] not in "'\"":
        return f"{key}={quoted(value)}"
    if key in ("experiment", "debug"):
        key = "+" + key
    if value == "nan" and key == "+debug":
        value = "'nan'"  # not the number
    return key + separator + value


def quoted(text: str) -> str:
    """Return a text as a value of Hydra's grammar."""
    # Inside quotes only backslashes before a quote are special.
    return "'" + re.sub(r"(\\*)('|$)", lambda m: 2 * m[1] + ("\\'" if m[2] else ""), literal(text)) + "'"


def parse_override(argument: str, problems: list[str]) -> Override | None:
    """Parse one override; if it is invalid, return None and append the problem to `problems`."""
    key, separator, _ = argument.partition("=")
    if argument.startswith("~"):
        problems.append(f"{argument}: settings cannot be removed; most can be null: {key[1:]}=null")
    elif argument.startswith("-") or not key or not separator:
        problems.append(f"{argument or repr('')}: {NOT_A_SETTING}")
    else:
        try:
            return OverridesParser.create().parse_override(argument)
        except (HydraException, OverrideParseException, ValueError, RecursionError):  # too many digits, or brackets
            fix = f"put a value with special characters in two pairs of quotes: {key}='\"…\"'"
            problems.append(f"{argument}: not understood; {fix}")
    return None


def value_problems(config: DictConfig, override: Override, keys: list[str]) -> list[str]:
    """Apply one value to `config` -> the problems with it."""
    key = override.key_or_group
    if key not in keys:
        return [f"{key}: unknown setting{suggestion(key, keys)}; --help lists all"]
    if override.is_add():
        return [f"+{key}: is part of every config, write it without the plus"]
    if override.is_sweep_override():
        return [f"{key}: expects one value, not several"]
    if key in VERBATIM and override.value() == "":
        return [f"{key}=: is empty; leave it out, or write {key}=null"]
    try:
        OmegaConf.update(config, key, override.value())
    except OmegaConfBaseException:
        kind = kind_of(OmegaConf.get_type(config), key)
        words = [*expected(kind), *(["null"] if NoneType in get_args(kind) else [])]
        if kind == list[str]:
            words = [f'a list: {key}=\'["first","second"]\'']
        return [f"{override.input_line}: must be {' or '.join(words)}"]
    return []


def suggestion(word: str, known: list[str]) -> str:
    """Return the closest known word as " (did you mean …?)", or ""; a dotted key also matches by its last part, and by
    the name that other programs have for it."""
    other = OTHER_NAMES.get(word.lower().rpartition(".")[2])
    if other in known:
        return f" (did you mean {other}?)"
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.75)
    same_end = [key for key in known if key.rpartition(".")[2] == word.lower().rpartition(".")[2]]
    return f" (did you mean {(near or same_end)[0]}?)" if near or same_end else ""


def all_keys(schema: type, prefix: str = "") -> list[str]:
    """Return all dotted keys of a dataclass, including nested ones and groups."""
    keys = []
    for name, kind in get_type_hints(schema).items():
        keys.append(prefix + name)
        if is_dataclass(kind) and isinstance(kind, type):
            keys += all_keys(kind, f"{prefix}{name}.")
    return keys


def kind_of(schema: Any, key: str) -> Any:
    """Return the type of a dotted key."""
    name, _, rest = key.partition(".")
    kind = get_type_hints(schema)[name]
    return kind_of(kind, rest) if rest else kind
