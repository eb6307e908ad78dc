"""Strict JSON, and checks of parsed values: nothing in a file is trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from attention_maps.files.errors import Damaged

EXACT = 2**53  # a browser's numbers are doubles: whole ones are exact up to here


def parse_json(text: str, name: str) -> Any:
    """Strict JSON: no NaN, no Infinity. Raises Damaged, saying that it is `name` which cannot be read."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise Damaged(f"{name} is nested too deeply") from error
    except ValueError as error:
        raise Damaged(f"{name} is no JSON ({error})") from error


def need(condition: bool, problem: str) -> None:
    """Raise Damaged with the problem unless the condition holds."""
    if not condition:
        raise Damaged(problem)


def is_whole(value: object, least: int = -EXACT, most: int = EXACT) -> bool:
    """Whether a value is a whole number within these bounds; true and false are none."""
    return type(value) is int and least <= value <= most


def is_number_or_none(value: object) -> bool:
    """Whether a value is null or a number that a browser can hold."""
    return value is None or (type(value) is float and math.isfinite(value)) or is_whole(value)


def is_text(value: object) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_list(values: Any, is_right: Callable[[Any], bool]) -> bool:
    """Whether a value is a list whose every item is right."""
    return isinstance(values, list) and all(is_right(value) for value in values)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")
