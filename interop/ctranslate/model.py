"""Our models as specifications of CTranslate2, built from its own layers.

Layers without a bias stay without one. relu(z)² has no layer of its own, but relu(z)² = relu(z) · z is a gated linear
unit (Shazeer 2020) whose gate and value are the same matrix; the file contains it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from configs.errors import UserError
from interop.ctranslate.limits import refusals
from interop.imported_options import advised
from model.blocks import CrossDecoderBlock, DecoderBlock, EncoderBlock
from model.config import ModelConfig
from model.embedding import Embedding, SinusoidalPositions
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.layers import RMSNorm

ACTIVATIONS = {
    "relu2": Activation.RELU,
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "silu": Activation.SWISH,
    "swiglu": Activation.SWISH,
}
"""What CTranslate2 applies to the (gate of the) hidden layer."""

FORBIDDEN = -1e9
"""Logit bias of tokens that are never generated: their probability becomes 0, as with `banned_ids`."""


SINUSOIDS = 1024
"""Least number of sinusoidal positions in the table: beyond its end, CTranslate2 fails."""


def generator_spec(
    model: GPT, vocabulary: Sequence[str], special_ids: Mapping[str, int], never_written: Sequence[int]
) -> TransformerDecoderModelSpec:
    """Return a GPT for `ctranslate2.Generator`.

    vocabulary: the name of each token; names must differ. special_ids: `start`, with which texts begin, `eos` and `unk`
    (-1 if there is none). never_written: ids whose logits become `FORBIDDEN`. Raises UserError naming each option that
    CTranslate2 does not have.
    """
    require(model.config, "gpt")
    spec = TransformerDecoderModelSpec(_decoder(model.config, with_encoder_attention=False))
    _fill_embedding(spec.decoder.embeddings, spec.decoder, model.embedding, model.vocab_size)
    for theirs, ours in zip(spec.decoder.layer, cast(Iterable[DecoderBlock], model.blocks), strict=True):
        _fill_block(theirs, ours)
    _fill_final_norm(spec.decoder, model.norm)
    _fill_output(spec.decoder, model, never_written)
    spec.register_vocabulary(list(vocabulary))
    spec.config.layer_norm_epsilon = model.config.norm_eps
    spec.config.bos_token = vocabulary[special_ids["start"]]
    _name_special_tokens(spec.config, vocabulary, special_ids)
    return spec


def translator_spec(
    model: EncoderDecoder,
    source: Sequence[str],
    target: Sequence[str],
    special_ids: Mapping[str, int],
    never_written: Sequence[int],
) -> TransformerSpec:
    """Return a translator for `ctranslate2.Translator`, which appends eos to each source.

    source, target: the names of the tokens of both sides. special_ids: `bos`, `eos` and `unk` (-1 if there is none), by
    the same names on both sides. never_written: ids whose logits become `FORBIDDEN`. Raises UserError naming each
    option that CTranslate2 does not have.
    """
    config = model.config
    require(config, "translate")
    encoder = TransformerEncoderSpec(config.encoder_depth, config.heads, **_options(config))
    spec = TransformerSpec(encoder, _decoder(config, with_encoder_attention=True))
    _fill_embedding(spec.encoder.embeddings[0], spec.encoder, model.source_embedding, model.source_vocab)
    for theirs, block in zip(spec.encoder.layer, cast(Iterable[EncoderBlock], model.encoder), strict=True):
        _fill_block(theirs, block)
    _fill_final_norm(spec.encoder, model.encoder_norm)
    _fill_embedding(spec.decoder.embeddings, spec.decoder, model.target_embedding, model.vocab_size)
    for theirs, ours in zip(spec.decoder.layer, cast(Iterable[CrossDecoderBlock], model.decoder), strict=True):
        _fill_block(theirs, ours)
        _fill_cross_attention(theirs.attention, ours)
    _fill_final_norm(spec.decoder, model.decoder_norm)
    _fill_output(spec.decoder, model, never_written)
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.config.bos_token = spec.config.decoder_start_token = target[special_ids["bos"]]
    _name_special_tokens(spec.config, target, special_ids)
    spec.config.add_source_eos = True
    return spec


def _name_special_tokens(config: Any, vocabulary: Sequence[str], special_ids: Mapping[str, int]) -> None:
    config.eos_token = vocabulary[special_ids["eos"]]
    if special_ids["unk"] >= 0:  # otherwise CTranslate2 adds a name that no text has
        config.unk_token = vocabulary[special_ids["unk"]]


def require(config: ModelConfig, task: str) -> None:
    """Raise UserError if CTranslate2 cannot compute the model exactly."""
    if refused := refusals(config, task):
        raise UserError(*advised(refused))


def _options(config: ModelConfig) -> dict[str, Any]:
    """Return the settings that encoder and decoder share."""
    return {
        "pre_norm": config.block == "pre_norm",
        "activation": ACTIVATIONS[config.activation],
        "ffn_glu": config.activation in ("relu2", "swiglu"),
        "rms_norm": config.norm == "rms",
        "qk_norm": config.qk_norm,
        "num_heads_kv": None if config.key_value_heads == config.heads else config.key_value_heads,
        "rotary_dim": 0 if config.position == "rotary" else None,  # 0: all entries of a head
        "rotary_interleave": False,
    }


def _decoder(config: ModelConfig, with_encoder_attention: bool) -> TransformerDecoderSpec:
    options = _options(config)
    return TransformerDecoderSpec(config.layers, config.heads, with_encoder_attention=with_encoder_attention, **options)


def _fill_embedding(table: Any, side: Any, ours: Embedding, vocabulary: int) -> None:
    """Copy the rows of the vocabulary without its padding, the scale and the positions."""
    table.weight = _array(ours.tokens.weight[:vocabulary])
    side.scale_embeddings = False if ours.scale == 1.0 else np.float32(ours.scale)
    if ours.positions is not None:
        context = ours.positions.context
        length = max(context, SINUSOIDS) if isinstance(ours.positions, SinusoidalPositions) else context
        side.position_encodings.encodings = _array(ours.positions(0, length))


def _fill_block(theirs: Any, ours: DecoderBlock | EncoderBlock) -> None:
    attention, mlp = ours.attention, ours.feed_forward
    _fill_norm(theirs.self_attention.layer_norm, ours.attention_norm)
    _fill_linear(theirs.self_attention.linear[0], attention.query_key_value)
    _fill_linear(theirs.self_attention.linear[1], attention.output)
    if attention.query_key_norm is not None:  # one gain for queries and keys
        _fill_norm(theirs.self_attention.q_norm, attention.query_key_norm)
        _fill_norm(theirs.self_attention.k_norm, attention.query_key_norm)
    _fill_norm(theirs.ffn.layer_norm, ours.feed_forward_norm)
    if mlp.activation == "swiglu":
        _fill_rows((theirs.ffn.linear_0, theirs.ffn.linear_0_noact), mlp.expand)
    else:
        _fill_linear(theirs.ffn.linear_0, mlp.expand)
        if mlp.activation == "relu2":
            _fill_linear(theirs.ffn.linear_0_noact, mlp.expand)
    _fill_linear(theirs.ffn.linear_1, mlp.project)


def _fill_cross_attention(theirs: Any, ours: CrossDecoderBlock) -> None:
    _fill_norm(theirs.layer_norm, ours.cross_norm)
    attention = ours.cross_attention
    for linear, layer in zip(theirs.linear, (attention.query, attention.key_value, attention.output), strict=True):
        _fill_linear(linear, layer)
    if attention.query_key_norm is not None:
        _fill_norm(theirs.q_norm, attention.query_key_norm)
        _fill_norm(theirs.k_norm, attention.query_key_norm)
    elif hasattr(theirs, "q_norm"):  # made for self-attention and cross-attention alike
        del theirs.q_norm, theirs.k_norm


def _fill_final_norm(side: Any, ours: nn.Module) -> None:
    if not isinstance(ours, nn.Identity):  # as after post-norm blocks
        _fill_norm(side.layer_norm, ours)


def _fill_output(decoder: Any, model: GPT | EncoderDecoder, never_written: Sequence[int]) -> None:
    """Copy the output projection. Tokens that are never generated get the bias `FORBIDDEN`."""
    decoder.projection.weight = _array(model.output_weight)
    bias = torch.zeros(model.vocab_size) if model.output_bias is None else model.output_bias.detach().clone()
    bias[list(never_written)] = FORBIDDEN
    if bias.any():
        decoder.projection.bias = _array(bias)


def _fill_norm(theirs: LayerNormSpec, ours: nn.Module) -> None:
    """Copy a norm. CTranslate2 reads one without beta as RMSNorm, so a LayerNorm without bias gets beta 0."""
    assert isinstance(ours, RMSNorm | nn.LayerNorm)
    theirs.gamma = _array(ours.weight)
    if isinstance(ours, nn.LayerNorm):
        theirs.beta = _array(torch.zeros_like(ours.weight) if ours.bias is None else ours.bias)


def _fill_linear(theirs: LinearSpec, ours: nn.Linear) -> None:
    _fill_rows((theirs,), ours)


def _fill_rows(theirs: Sequence[LinearSpec], ours: nn.Linear) -> None:
    """Divide the outputs of a linear layer equally among several."""
    biases = [None] * len(theirs) if ours.bias is None else ours.bias.chunk(len(theirs))
    for linear, weight, bias in zip(theirs, ours.weight.chunk(len(theirs)), biases, strict=True):
        linear.weight = _array(weight)
        if bias is not None:
            linear.bias = _array(bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().contiguous().numpy()
