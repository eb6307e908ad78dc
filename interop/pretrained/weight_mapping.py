"""Map our parameters to tensors of another program, as data that can be read in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Order = Sequence[int] | None
"""Entry i of ours is entry order[i] of theirs; None if the order is the same."""


@dataclass(frozen=True)
class Piece:
    """One of our parameters."""

    ours: str
    """Its name; empty if we have no such parameter, so that theirs must be 0 everywhere."""

    theirs: tuple[str, ...]
    """The tensors that, one below the other, are our parameter."""

    shape: tuple[int, ...]
    """Of our parameter."""

    rows: tuple[int, ...]
    """The number of rows of each of their tensors."""

    row_order: Order = None
    column_order: Order = None

    transposed: bool = False
    """Whether they store matrices as [in, out]."""

    equal: bool = False
    """Whether theirs are equal tensors, of which we have one, instead of parts of ours."""

    in_batch: bool = False
    """Whether they have an axis of length 1 before the others."""

    optional: bool = False
    """Whether they may be missing, and are then 0."""

    def their_shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of one of their tensors."""
        shape = (self.rows[number], *self.shape[1:])
        shape = shape[::-1] if self.transposed else shape
        return (1, *shape) if self.in_batch else shape


def linear(
    ours: str,
    theirs: Sequence[str],
    rows: Sequence[int],
    columns: int,
    bias: bool,
    *,
    row_order: Order = None,
    column_order: Order = None,
    transposed: bool = False,
) -> Iterator[Piece]:
    """Yield weight [out, in] and bias [out] of a linear layer; `theirs` and `rows` list its parts, by output."""
    weights, biases = (tuple(f"{name}.{part}" for name in theirs) for part in ("weight", "bias"))
    shape, parts = (sum(rows), columns), tuple(rows)
    yield Piece(f"{ours}.weight", weights, shape, parts, row_order, column_order, transposed)
    if bias:
        yield Piece(f"{ours}.bias", biases, shape[:1], parts, row_order)


def norm(ours: str, theirs: str, width: int, bias: bool, *, order: Order = None) -> Iterator[Piece]:
    """Yield gain and bias [C] of a norm."""
    for part in ("weight", "bias")[: 1 + bias]:
        yield Piece(f"{ours}.{part}", (f"{theirs}.{part}",), (width,), (width,), order)


def table(ours: str, theirs: str, rows: int, columns: int, *, column_order: Order = None) -> Piece:
    """Return an embedding table [rows, columns]."""
    return Piece(ours, (theirs,), (rows, columns), (rows,), None, column_order)
