"""Values of a `config.json`, each checked when it is read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from configs.errors import UserError

LARGEST = 2**31 - 1
"""Of whole numbers: larger sizes are damage."""


class Values:
    """Reads values by key and remembers what is wrong with them; `check` raises all of it at once."""

    def __init__(self, path: str, content: Mapping[str, Any]) -> None:
        """path: of the file, for messages."""
        self.path, self.content = path, content
        self.problems: list[str] = []

    def refuse(self, key: str, value: object, problem: str) -> None:
        """Remember a problem with a value."""
        self.problems.append(f"{self.path}: {key}={value}: {problem}")

    def whole(self, key: str, default: int | None = None) -> int:
        """Return a whole number, from 1 to `LARGEST`."""
        value = self.content.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
            limits = f"must be a whole number of at least 1 and at most {LARGEST:,}"
            self.refuse(key, value, f"{limits}; is this the config.json of the model?")
            return 1
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number greater than 0."""
        value = self.content.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= sys.float_info.max:
            self.refuse(key, value, "must be a finite number greater than 0")
            return 1.0
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.content.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, value, "must be true or false")
        return bool(value)

    def chosen(self, key: str, choices: Mapping[str, str], default: str) -> str:
        """Return what one of our settings is called for a value."""
        value = self.content.get(key, default)
        if not isinstance(value, str) or value not in choices:
            self.refuse(key, value, f"cannot be imported, only {', '.join(choices)}")
            return ""
        return choices[value]

    def only(self, key: str, allowed: Sequence[object], why: str) -> None:
        """Refuse every value but the first of `allowed`, which is also the default, and the others."""
        value = self.content.get(key, allowed[0])
        if value not in allowed:
            self.refuse(key, value, f"{why}; choose a model with {key}={allowed[0]}")

    def same(self, *keys: str) -> None:
        """Refuse values that differ from one another."""
        first, *others = (self.content.get(key) for key in keys)
        for key, value in zip(keys[1:], others, strict=True):
            if value != first:
                self.refuse(key, value, f"differs from {keys[0]}={first}, but this program has one setting for both")

    def rotary_base(self, part: float = 1.0) -> float:
        """Return the base of rotary positions, with which whole heads must be rotated. part: default of the fraction of
        a head that is rotated."""
        key = "rope_parameters" if self.content.get("rope_parameters") else "rope_scaling"
        content = self.content.get(key) or {}
        if not isinstance(content, dict):
            self.refuse(key, content, "must be an object, with rope_type and rope_theta")
            content = {}
        kind = content.get("rope_type", content.get("type", "default"))
        if kind != "default":
            self.refuse("rope_type", kind, "positions are not scaled here; choose a model with rope_type=default")
        old = self.content  # of transformers before version 5
        fraction = content.get("partial_rotary_factor", old.get("partial_rotary_factor", part))
        if fraction != 1:
            fix = "whole heads are rotated here; choose a model with partial_rotary_factor=1"
            self.refuse("partial_rotary_factor", fraction, fix)
        values = Values(self.path, {"rope_theta": content.get("rope_theta", old.get("rope_theta", 10_000.0))})
        base = values.number("rope_theta", 0)
        self.problems += values.problems
        return base

    def check(self) -> None:
        """Raise UserError with all problems."""
        if self.problems:
            raise UserError(*self.problems)
