"""How large a model is and what it costs: parameters and floating-point operations."""

from __future__ import annotations

from torch import nn

from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def count_parameters(model: nn.Module) -> int:
    """All trained numbers; a shared (tied) table counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_multiplied(model: nn.Module) -> int:
    """Entries of weight matrices: the N of 6 N.

    The output projection is one of them, tied or not. Tables that are only looked up (learned positions, token
    embeddings that are not the output projection too), gains and biases are not.
    """
    matrices = {module.weight for module in model.modules() if isinstance(module, nn.Linear)}
    return sum(matrix.numel() for matrix in matrices)


def training_flops(model: GPT | EncoderDecoder, target_length: int, source_length: int = 0) -> int:
    """Floating-point operations of one forward and backward pass over one sequence (one pair).

    The convention of Kaplan et al. 2020 (section 2.1) and Chowdhery et al. 2022 (PaLM, appendix B), 6 N + 12 L T C per
    token: a weight costs a multiplication and an addition forwards and twice that backwards; scores and mixtures cost
    2 T C each per token and layer forwards. N is `count_multiplied`. The causal half that a kernel may skip is counted;
    norms, activations and softmax are not. Utilisation (MFU) by this count can be compared with published figures.

    An encoder-decoder spends the weights of the encoder and of the cross-attention's keys and values on source tokens,
    all others on target tokens, and has three attentions: S x S, T x T and T x S.
    """
    width, layers = model.config.width, model.config.layers
    multiplied = count_multiplied(model)
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


def flops_per_token(model: GPT | EncoderDecoder, length: int) -> float:
    """`training_flops` per token of a sequence of `length`; of a pair, per source or target token, both of `length`."""
    if isinstance(model, GPT):
        return training_flops(model, length) / length
    return training_flops(model, length, length) / (2 * length)
