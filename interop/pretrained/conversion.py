"""Turn tensors of another program into our parameters and back, as a table of `Piece`s says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from configs.errors import UserError
from interop.pretrained.architecture import Architecture
from interop.pretrained.folder import Pretrained, read_tensors, weights_file
from interop.pretrained.weight_mapping import Order, Piece

Weights = dict[str, Tensor]


def load_weights(source: Pretrained, context: int | None = None) -> dict[str, Tensor]:
    """Return our parameters, float32, on the CPU. context: that of our model if it is shorter; learned positions beyond
    it are left out. Raises UserError naming the first tensor that does not fit."""
    architecture, tensors = source.architecture, read_tensors(source.folder)
    weights = to_ours(architecture, architecture.pieces(source.shapes), tensors, weights_file(source.folder))
    positions = "embedding.positions.weight"
    if positions in weights and context is not None:
        weights[positions] = weights[positions][:context]
    return weights


def to_ours(architecture: Architecture, pieces: Iterable[Piece], tensors: Mapping[str, Tensor], file: Path) -> Weights:
    """Return our parameters, float32. file: where the tensors come from, for messages.

    Raises UserError naming the first tensor that is missing, has another shape, or is not part of the architecture.
    """
    pieces = list(pieces)
    wanted = {name for piece in pieces for name in piece.theirs}
    named = _canonical(architecture, wanted, tensors)
    if missing := sorted(wanted - named.keys() - {name for piece in pieces if piece.optional for name in piece.theirs}):
        raise UserError(f"{file}: {missing[0]} is missing, a tensor of {architecture.model_type}; download it again")
    if foreign := sorted(named.keys() - wanted):
        known = f"{architecture.class_name} with this config.json has no such tensor"
        raise UserError(f"{file}: {foreign[0]}: {known}; remove it, or choose another model")
    weights: Weights = {}
    for piece in pieces:
        parts = [_checked(piece, number, named, file) for number in range(len(piece.theirs))]
        if piece.equal and not all(torch.equal(part, parts[0]) for part in parts):
            raise UserError(f"{file}: {' and '.join(piece.theirs)} differ, but this program has one gain for both")
        if not piece.ours:
            if any(part.any() for part in parts):
                raise UserError(
                    f"{file}: {piece.theirs[0]} is not 0, but a model here has biases everywhere or nowhere"
                )
            continue
        whole = parts[0] if piece.equal else torch.cat(parts)
        weights[piece.ours] = _reordered(whole, piece.row_order, piece.column_order)
    return weights


def to_theirs(pieces: Iterable[Piece], weights: Mapping[str, Tensor]) -> Weights:
    """Return the tensors of the other program, contiguous and in the dtype of `weights`; the inverse of `to_ours`."""
    tensors: Weights = {}
    for piece in pieces:
        whole = weights[piece.ours] if piece.ours else torch.zeros(piece.shape)
        whole = _reordered(whole, _inverse(piece.row_order), _inverse(piece.column_order))
        parts = [whole] * len(piece.theirs) if piece.equal else whole.split(piece.rows)
        for name, part in zip(piece.theirs, parts, strict=True):
            part = part.t() if piece.transposed else part
            tensors[name] = (part.unsqueeze(0) if piece.in_batch else part).contiguous().clone()
    return tensors


def _canonical(architecture: Architecture, wanted: set[str], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that are parameters, under the names of `Piece`s."""
    prefix = architecture.prefix
    bare = prefix != "" and not any(name.startswith(prefix) for name in tensors)  # of the model without its head
    aliases = {alias: name for name, others in architecture.aliases.items() for alias in others}
    tied = {alias for alias in (*aliases, "lm_head.weight") if alias not in wanted}
    weights: dict[str, Tensor] = {}
    for name, tensor in sorted(tensors.items()):
        full = f"{prefix}{name}" if bare and f"{prefix}{name}" in wanted else name
        if full in wanted:
            weights[full] = tensor
        elif full not in tied and not re.search(architecture.ignored, full):
            weights[full] = tensor  # an unknown one, to be reported
    for name, others in architecture.aliases.items():
        present = [alias for alias in others if alias in tensors and alias not in wanted]
        if name in wanted and name not in weights and present:
            weights[name] = tensors[present[0]]
    return weights


def _checked(piece: Piece, number: int, named: Mapping[str, Tensor], file: Path) -> Tensor:
    """Return one of their tensors, [rows, …] float32. Raises UserError if it has another shape."""
    name, shape = piece.theirs[number], piece.their_shape(number)
    if piece.optional and name not in named:
        return torch.zeros(piece.rows[number], *piece.shape[1:])
    tensor = named[name]
    if tensor.shape != shape:
        raise UserError(f"{file}: {name} has shape {tuple(tensor.shape)}, but by config.json it is {shape}")
    if not tensor.is_floating_point():
        raise UserError(f"{file}: {name} has {tensor.dtype} numbers; quantised models cannot be imported")
    tensor = tensor.squeeze(0) if piece.in_batch else tensor
    return (tensor.t() if piece.transposed else tensor).float()


def _reordered(tensor: Tensor, rows: Order, columns: Order) -> Tensor:
    tensor = tensor if rows is None else tensor[torch.tensor(rows)]
    return tensor if columns is None else tensor[:, torch.tensor(columns)]


def _inverse(order: Order) -> Order:
    return None if order is None else torch.tensor(order).argsort().tolist()
