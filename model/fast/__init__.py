"""Faster forms of the functions that `model` defines: the same results, faster on some hardware.

A definition with a faster form is decorated with that form:

    @accelerated_by(fast_rotate)
    def rotate(x, rotation): ...

A call of `rotate` first tries `fast_rotate`, which returns the result, or None if it is no faster than the definition;
in that case the definition runs. Only this package branches on devices, dtypes, gradients and compilation. The plain
definition is `inspect.unwrap(rotate)`: tests compare values and gradients of the two.

`prepare` converts a model for decoding: it replaces whole layers, not functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def accelerated_by(form: Callable[..., Any]) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorate a definition: calls go to `form`, and to the definition if `form` returns None."""

    def decorate(definition: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(definition)
        def fastest(*arguments: Arguments.args, **settings: Arguments.kwargs) -> Result:
            result = form(*arguments, **settings)
            return definition(*arguments, **settings) if result is None else result

        return fastest

    return decorate
