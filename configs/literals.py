"""Values that OmegaConf must not interpolate."""

from __future__ import annotations

import re
from typing import Any


def literal(value: Any) -> Any:
    """Escape `${…}` in strings, also inside lists and dicts: OmegaConf would interpolate it."""
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + "\\${", value)
    if isinstance(value, list):
        return [literal(item) for item in value]
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    return value
