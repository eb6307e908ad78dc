"""Compute the size and cost of a model: parameters and floating-point operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

Lengths = int | NDArray[np.int64]
"""Number of tokens, of one sequence or of several."""


def count_parameters(model: nn.Module) -> int:
    """Count all trained parameters; a shared (tied) table counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_matrix_weights(model: nn.Module) -> int:
    """Count the entries of weight matrices: the N of 6 N.

    The output projection counts, tied or not. Lookup tables (learned positions, token embeddings that are not tied to
    the output projection), gains and biases do not.
    """
    matrices = {module.weight for module in model.modules() if isinstance(module, nn.Linear)}
    return sum(matrix.numel() for matrix in matrices)


def training_flops(
    model: GPT | EncoderDecoder, target_length: Lengths, source_length: Lengths = 0
) -> int | NDArray[np.int64]:
    """Return the floating-point operations of one forward and backward pass over one sequence (or pair), or over each
    of several.

    The convention of Kaplan et al. 2020 (section 2.1) and Chowdhery et al. 2022 (PaLM, appendix B) is 6 N + 12 L T C
    per token: a weight costs a multiplication and an addition in the forward pass and twice that in the backward pass;
    scores and weighted sums cost 2 T C each per token and layer in the forward pass. N is `count_matrix_weights`. The
    causal half that a kernel may skip is counted; norms, activations and softmax are not. Model FLOPs utilisation (MFU)
    by this count is comparable with published figures.

    In an encoder-decoder, the weights of the encoder and of the cross-attention's keys and values apply to source
    tokens, all others to target tokens; the three attentions cost S x S, T x T and T x S.
    """
    width, layers = model.config.width, model.config.layers
    multiplied = count_matrix_weights(model)
    if isinstance(model, GPT):
        return 6 * multiplied * target_length + 12 * layers * width * target_length**2
    on_source = sum(
        module.weight.numel()
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and (name.startswith("encoder.") or name.endswith(".key_value"))
    )
    pairs = model.config.encoder_depth * source_length**2 + layers * target_length * (target_length + source_length)
    on_target = multiplied - on_source
    return 6 * (on_source * source_length + on_target * target_length) + 12 * width * pairs


def flops_per_token(model: GPT | EncoderDecoder, target_length: Lengths, source_length: Lengths = 0) -> float:
    """Return `training_flops` per token, source or target, of one sequence (or pair) or of several."""
    operations = training_flops(model, target_length, source_length)
    return float(np.sum(operations, dtype=float) / np.sum(np.add(target_length, source_length), dtype=float))
