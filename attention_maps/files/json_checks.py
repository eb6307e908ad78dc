"""Parse strict JSON and validate the parsed values of untrusted files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from attention_maps.files.errors import Damaged

EXACT = 2**53  # largest integer range that a browser's doubles represent exactly


def parse_json(text: str, name: str) -> Any:
    """Parse strict JSON, without NaN and Infinity. Raises Damaged with `name` as the subject of the message."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise Damaged(f"{name} is nested too deeply") from error
    except ValueError as error:
        raise Damaged(f"{name} is not valid JSON ({error})") from error


def need(condition: bool, problem: str) -> None:
    """Raise Damaged with the message `problem` unless the condition is true."""
    if not condition:
        raise Damaged(problem)


def is_whole(value: object, least: int = -EXACT, most: int = EXACT) -> bool:
    """Whether a value is an integer within these bounds; booleans are not."""
    return type(value) is int and least <= value <= most


def is_size(value: object) -> bool:
    """Whether a value is a non-negative integer."""
    return is_whole(value, 0)


def is_number_or_none(value: object) -> bool:
    """Whether a value is null or a number that a browser can represent."""
    return value is None or (type(value) is float and math.isfinite(value)) or is_whole(value)


def is_text(value: object) -> bool:
    """Whether a value is a string."""
    return isinstance(value, str)


def is_list(values: Any, is_right: Callable[[Any], bool]) -> bool:
    """Whether a value is a list whose items all satisfy `is_right`."""
    return isinstance(values, list) and all(is_right(value) for value in values)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")
