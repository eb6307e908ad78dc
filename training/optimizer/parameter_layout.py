"""Layout of a flat tensor that contains all parameters of a model, section by section."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ALIGNMENT = 64
"""Entries: parameters start at multiples of 256 bytes in float32 and 128 in bfloat16, for fast matrix products."""

HIDDEN, OUTER, VECTORS = "hidden matrices", "embeddings and heads", "vectors"
SECTIONS = (HIDDEN, OUTER, VECTORS)
"""Parameters that optimisers treat alike are contiguous, in this order: matrices are decayed, vectors are not; hidden
matrices suit Muon, embeddings and heads AdamW (Jordan et al. 2024) or rules of their own (`scion`)."""


def section(name: str, parameter: Tensor) -> str:
    """Return which of SECTIONS a parameter belongs to."""
    if parameter.ndim < 2:
        return VECTORS
    return OUTER if "embedding" in name or name.startswith("head.") or parameter.ndim > 2 else HIDDEN


@dataclass(frozen=True)
class Layout:
    """Start of each parameter, and extent of each section. Gaps between parameters contain zeros.

    Each section is a whole number of equal shares, one for each of `world` processes.
    """

    shapes: dict[str, torch.Size]
    """By name, in the model's order."""
    starts: dict[str, int]
    sections: dict[str, slice]
    length: int
    world: int

    def parts(self, flat: Tensor) -> list[Tensor]:
        """Return views of a flat tensor in the shapes of the parameters, in the model's order."""
        return [
            flat[self.starts[name] : self.starts[name] + shape.numel()].view(shape)
            for name, shape in self.shapes.items()
        ]

    def flat(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the inverse of `parts`, a new tensor; gaps are zero."""
        return joined({self.starts[name]: part for name, part in zip(self.shapes, parts, strict=True)}, self.length)

    def share(self, kind: str, rank: int) -> slice:
        """Return the share of a section that belongs to a process."""
        whole = self.sections[kind]
        size = (whole.stop - whole.start) // self.world
        return slice(whole.start + rank * size, whole.start + (rank + 1) * size)

    def names(self, kind: str) -> list[str]:
        """Return the parameters of a section, in the model's order."""
        whole = self.sections[kind]
        return [name for name in self.shapes if whole.start <= self.starts[name] < whole.stop]

    def named(self, kind: str, flat: Tensor) -> dict[str, Tensor]:
        """Return the parameters of a section as views of `flat`, a tensor of this section alone."""
        first = self.sections[kind].start
        starts, shapes = self.starts, self.shapes
        return {
            name: flat[starts[name] - first : starts[name] - first + shapes[name].numel()].view(shapes[name])
            for name in self.names(kind)
        }

    def rows(self, kind: str, rank: int, share: Tensor) -> dict[str, Tensor]:
        """Return a process's rows of the parameters of a section as views of `share`, its share of this section; of a
        parameter of which it has none, nothing. No border of two shares may divide a row."""
        extent = self.share(kind, rank)
        named = {}
        for name in self.names(kind):
            shape = self.shapes[name]
            first = max(self.starts[name], extent.start)
            end = min(self.starts[name] + shape.numel(), extent.stop)
            if first < end:
                named[name] = share[first - extent.start : end - extent.start].view(-1, *shape[1:])
        return named


class FlatMatrices:
    """The matrices of a section for Muon, whose parts are one flat tensor (`training.optimizer.muon.Exchange`)."""

    def __init__(self, layout: Layout, kind: str) -> None:
        whole = layout.sections[kind]
        self.shapes = [layout.shapes[name] for name in layout.names(kind)]
        self.starts = [layout.starts[name] - whole.start for name in layout.names(kind)]
        self.length = whole.stop - whole.start

    def to_owners(self, parts: list[Tensor]) -> dict[int, Tensor]:
        """Return all matrices, as views."""
        (flat,) = parts
        places = zip(self.starts, self.shapes, strict=True)
        return {i: flat.narrow(0, start, shape.numel()).view(shape) for i, (start, shape) in enumerate(places)}

    def from_owners(self, matrices: dict[int, Tensor], like: Tensor) -> list[Tensor]:
        """Return one flat tensor; gaps are zero."""
        return [joined({self.starts[index]: matrix for index, matrix in matrices.items()}, self.length)]


def joined(parts: Mapping[int, Tensor], length: int) -> Tensor:
    """Return a flat tensor of the given length with each part at its start; gaps are zero."""
    pieces, end = [], 0
    for start in sorted(parts):
        part = parts[start]
        pieces += [part.new_zeros(start - end)] * (start > end)
        pieces.append(part.reshape(-1))
        end = start + part.numel()
    return torch.cat([*pieces, *[parts[start].new_zeros(length - end)] * (length > end)])


def layout_of(named: Mapping[str, Tensor], world: int = 1, *, whole_matrices: bool = False) -> Layout:
    """Return the layout of these parameters. No row of OUTER crosses the border of two shares; with `whole_matrices` no
    hidden matrix does."""
    starts: dict[str, int] = {}
    sections: dict[str, slice] = {}
    length = 0
    for kind in SECTIONS:
        members = {name: p for name, p in named.items() if section(name, p) == kind}
        unit = ALIGNMENT
        if world > 1 and kind == OUTER:
            unit = math.lcm(unit, *(p.shape[1:].numel() for p in members.values()))
        sizes = {name: _aligned(p.numel(), unit) for name, p in members.items()}
        assigned = _assign(sizes, world) if whole_matrices and kind == HIDDEN else [list(sizes)]
        loads = [sum(sizes[name] for name in names) for names in assigned]
        share = max(loads) if len(assigned) == world else _aligned(-(-loads[0] // world), unit)
        for rank, names in enumerate(assigned):
            start = length + rank * share
            for name in names:
                starts[name] = start
                start += sizes[name]
        sections[kind] = slice(length, length + world * share)
        length += world * share
    shapes = {name: parameter.shape for name, parameter in named.items()}
    return Layout(shapes, starts, sections, length, world)


def _aligned(entries: int, unit: int) -> int:
    """Round up to a multiple of `unit`."""
    return -(-entries // unit) * unit


def _assign(sizes: Mapping[str, int], world: int) -> list[list[str]]:
    """Assign matrices to processes, the largest first, each to the process with the fewest entries so far.

    The matrices of a model share their shorter side, so that Muon's cost is nearly proportional to the entries.
    """
    assigned: list[list[str]] = [[] for _ in range(world)]
    loads = [0] * world
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        rank = loads.index(min(loads))
        assigned[rank].append(name)
        loads[rank] += sizes[name]
    return assigned
