"""Contenders, and the benchmark that compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Step = Callable[[], int]
"""Does one step of the work and returns the number of its units (tokens, sentences, …)."""


class Skipped(Exception):
    """Raised by a contender that cannot run on this machine, with the reason. A peer whose package is missing raises
    ImportError."""


@dataclass(frozen=True)
class Contender:
    """One row of a benchmark: a step that a process of its own builds and repeats."""

    name: str
    build: str
    """`module:function`, imported in the contender's process; called with `arguments` it returns a `Step`."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Passed by name; plain values that JSON can hold."""

    ours: bool = False
    """Whether it is this project. A failed import means `skipped` for a peer and `failed` for ours."""

    operations_per_unit: float | None = None
    """Floating-point operations of the model per unit of work, for FLOP/s and the share of the matrix peak."""

    facts: Mapping[str, float] = field(default_factory=dict)
    """Numbers that describe the work, kept with the results for formulas."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its process beside the inherited ones (`OMP_NUM_THREADS`, say)."""


@dataclass(frozen=True)
class Comparison:
    """A line of the README's table: the fastest of some of our rows against the fastest of some peers."""

    what: str
    """What is compared: the first cell of the line."""

    ours: tuple[str, ...]
    """Names of rows; the fastest that was measured counts."""

    peers: tuple[str, ...]
    """Likewise."""


@dataclass(frozen=True)
class Benchmark:
    """Contenders that do the same work."""

    name: str
    """Its results are `<name>.json`."""

    title: str
    """The caption of the table, with the shapes that all share."""

    unit: str
    """What a step counts, in the plural: `tokens`."""

    contenders: tuple[Contender, ...]

    reference: str
    """Name of the row that the others are divided by."""

    comparisons: tuple[Comparison, ...] = ()

    def __post_init__(self) -> None:
        names = [contender.name for contender in self.contenders]
        wanted = {self.reference}.union(*({*one.ours, *one.peers} for one in self.comparisons))
        if len(set(names)) < len(names) or wanted - set(names):
            raise ValueError(
                f"{self.name}: names must be distinct, and these are of no contender: {wanted - set(names)}"
            )
