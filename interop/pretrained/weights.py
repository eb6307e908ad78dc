"""The weights of a folder of transformers, as parameters of our model."""

from __future__ import annotations

from torch import Tensor

from interop.pretrained.conversion import to_ours
from interop.pretrained.folder import Pretrained, read_tensors, weights_file


def load_weights(source: Pretrained, context: int | None = None) -> dict[str, Tensor]:
    """Return our parameters, float32, on the CPU. context: that of our model if it is shorter; learned positions beyond
    it are left out. Raises UserError naming the first tensor that does not fit."""
    architecture, tensors = source.architecture, read_tensors(source.folder)
    weights = to_ours(architecture, architecture.pieces(source.shapes), tensors, weights_file(source.folder))
    positions = "embedding.positions.weight"
    if positions in weights and context is not None:
        weights[positions] = weights[positions][:context]
    return weights
