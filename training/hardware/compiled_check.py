"""Compare the results of compiled code with those of uncompiled code: the loss, and the gradient of each parameter.

A fault of the compiler may leave the loss exact and the gradients wrong: torch 2.11 compiles some operations in place
within an `autograd.Function` to gradients that are zero, or that look healthy and are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from model import fast_kernels

BOUNDS = {torch.float32: 0.01, torch.bfloat16: 0.2}
"""Largest relative error of a gradient that rounding may cause, by compute dtype. Seen in untrained models: up to 4e-6
in float32 (tests/training/test_compiled_gradients.py) and 0.07 in bfloat16."""

_LOSS_BOUND = 0.1
"""Bound of the loss, a sum of many terms, as a share of `BOUNDS`. Seen: up to 6e-4 in bfloat16."""

_LOSS = "the loss"

_FLOOR = 0.05
"""A gradient much smaller than all others consists of rounding errors, as that of the bias of keys, which is 0. Its
error is divided by this share of the root mean square of all gradients."""


@contextmanager
def masks_of_compiled_code() -> Iterator[None]:
    """Draw the dropout masks that compiled code draws from the same random state, to compare the results of both."""
    before, fast_kernels.hash_masks = fast_kernels.hash_masks, True
    try:
        yield
    finally:
        fast_kernels.hash_masks = before


class WrongGradient(Exception):
    """Compiled code computes something else; the message names the parameter with the largest error."""


@dataclass
class Difference:
    """The largest relative error, and where it is: the name of a parameter, or `the loss`."""

    where: str
    error: float

    @property
    def severity(self) -> float:
        """The error, comparable between the loss and gradients."""
        return self.error / (_LOSS_BOUND if self.where == _LOSS else 1.0)

    def is_wrong(self, dtype: torch.dtype) -> bool:
        """Whether rounding in this compute dtype cannot explain the difference."""
        return self.severity > BOUNDS[dtype]


def largest_difference(
    names: Sequence[str], actual: tuple[Tensor, Sequence[Tensor]], expected: tuple[Tensor, Sequence[Tensor]]
) -> Difference | None:
    """Compare losses and gradients. The error of a gradient g with respect to r is |g - r| / |r|, but see `_FLOOR`;
    infinite if only g is not finite. None if something expected is not finite.

    A matrix is compared in a few parts: the gradients of queries and keys are a small part of that of
    `query_key_value`.
    """
    (loss, gradients), (expected_loss, references) = actual, expected
    parts = [
        (name, part, other)
        for name, gradient, reference in zip(names, gradients, references, strict=True)
        for part, other in zip(_in_parts(gradient), _in_parts(reference), strict=True)
    ]
    numbers = torch.stack(
        [torch.stack([(part.float() - other.float()).norm(), other.float().norm()]) for _, part, other in parts]
    ).tolist()  # one transfer from the device
    sizes = [other.numel() for _, _, other in parts]
    mean_square = sum(norm**2 for _, norm in numbers) / max(1, sum(sizes))
    if not all(math.isfinite(number) for number in (float(expected_loss), mean_square)):
        return None
    differences = [Difference(_LOSS, float((loss - expected_loss).abs() / expected_loss.abs().clamp(min=1e-6)))]
    for (name, _, _), size, (error, norm) in zip(parts, sizes, numbers, strict=True):
        differences.append(Difference(name, error / max(norm, _FLOOR * math.sqrt(size * mean_square), 1e-30)))
    for difference in differences:
        if math.isnan(difference.error):
            difference.error = math.inf
    return max(differences, key=lambda difference: difference.severity)


def _in_parts(gradient: Tensor) -> tuple[Tensor, ...]:
    """Divide the rows of a matrix into at most 8 parts; a vector remains whole."""
    return gradient.tensor_split(min(8, len(gradient))) if gradient.ndim > 1 else (gradient,)
