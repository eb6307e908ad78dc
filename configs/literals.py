"""Values that OmegaConf takes as they are."""

from __future__ import annotations

import re
from typing import Any


def literal(value: Any) -> Any:
    """Text, also inside lists and dicts, in which `${…}` is escaped: OmegaConf would look it up, in the environment
    say."""
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + "\\${", value)
    if isinstance(value, list):
        return [literal(item) for item in value]
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    return value
