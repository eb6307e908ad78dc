"""Define contenders and the benchmark that compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Step = Callable[[], int]
"""Runs one step of the workload and returns the number of units processed (tokens, sentences, …)."""


class Skipped(Exception):
    """Raised, with the reason, by a contender that cannot run here; a missing package is an ImportError instead."""


@dataclass(frozen=True)
class Contender:
    """One row of a benchmark: a step that is built and repeated in a separate process."""

    name: str
    build: str
    """`module:function`, imported in the contender's process. The function accepts `arguments` and returns a `Step`."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the build function; values must be JSON-serialisable."""

    ours: bool = False
    """Whether the contender is this project. A failed import means `skipped` for a peer and `failed` for ours."""

    operations_per_unit: float | None = None
    """Floating-point operations of the model per unit, for FLOP/s and the fraction of the matrix peak."""


@dataclass(frozen=True)
class Comparison:
    """One row of a comparison table: our fastest measured contender against the fastest measured peer."""

    what: str
    """Description of the comparison: the first cell of the row."""

    ours: tuple[str, ...]
    peers: tuple[str, ...]


@dataclass(frozen=True)
class Benchmark:
    """A set of contenders with the same workload."""

    name: str
    """The results are saved as `<name>.json`."""

    title: str
    """Caption of the table, with the shapes common to all contenders."""

    unit: str
    """Unit that a step counts, in the plural, e.g. `tokens`."""

    contenders: tuple[Contender, ...]

    reference: str
    """Name of the contender that the other contenders are compared with."""

    comparisons: tuple[Comparison, ...] = ()
