"""Other forms of the functions that `model` defines: the same results, faster on some hardware.

A definition that has one says so:

    @accelerated_by(fast_rotate)
    def rotate(x, rotation): ...

A call of `rotate` then first asks `fast_rotate`, which returns the result, or None where it is no faster than the
definition; then the definition computes it. Questions about devices, dtypes, gradients and compilation are asked here
alone. The definition by itself is `inspect.unwrap(rotate)`: tests compare the two, values and gradients.

`prepare` makes a model ready for decoding: it exchanges whole layers, not functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def accelerated_by(form: Callable[..., Any]) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorate a definition: calls go to `form`, and where that returns None to the definition."""

    def decorate(definition: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(definition)
        def fastest(*arguments: Arguments.args, **settings: Arguments.kwargs) -> Result:
            result = form(*arguments, **settings)
            return definition(*arguments, **settings) if result is None else result

        return fastest

    return decorate
