"""The architecture of transformers that computes a GPT exactly, with our weights in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from configs.errors import UserError
from interop.huggingface.weights import Weights, each_head_its_key, layer
from interop.imported_options import advised, foreign_options
from interop.pretrained.architecture import Shapes
from interop.pretrained.conversion import to_theirs
from interop.pretrained.folder import ARCHITECTURES
from interop.pretrained.gpt2 import GPT2
from model.blocks import DecoderBlock
from model.config import ModelConfig
from model.gpt import GPT


def architecture(config: ModelConfig) -> str:
    """Return the `model_type` that computes this GPT exactly. Raises UserError naming each option that none computes,
    and what to train instead."""
    rotary, gated = config.position == "rotary", config.activation == "swiglu"
    layer_norm, qk_norm, bias = config.norm == "layer", config.qk_norm, config.bias
    refused = advised(foreign_options(config, "transformers")) + [
        sentence
        for holds, sentence in (
            (
                config.token_shift,
                "model.token_shift=true: no architecture of transformers adds the vector of the token before; train "
                "with model.token_shift=false",
            ),
            (
                not rotary and (gated or qk_norm or not layer_norm),
                f"model.position={config.position}: transformers adds positions to the embedding only in GPT-2, with "
                "model.norm=layer, model.qk_norm=false and model.activation=gelu or relu2; train with these, or with "
                "model.position=rotary",
            ),
            (
                rotary and layer_norm and qk_norm,
                "model.qk_norm=true with model.norm=layer: no architecture of transformers has both; train with "
                "model.norm=rms, or with model.qk_norm=false",
            ),
            (
                rotary and bias and qk_norm and not layer_norm,
                "model.bias=true with model.qk_norm=true: no architecture of transformers has both; train with "
                "model.bias=false, or with model.qk_norm=false",
            ),
            (
                rotary and bias and layer_norm and gated and not qk_norm,
                "model.bias=true with model.norm=layer and model.activation=swiglu: no architecture of transformers "
                "has all three; train with model.bias=false, or with another activation",
            ),
        )
        if holds
    ]
    if refused:
        raise UserError(*refused)
    if not rotary:
        return "gpt2"
    if layer_norm:
        return "stablelm" if gated else "starcoder2"
    if qk_norm:
        return "qwen3" if gated else "apertus"
    return "llama" if gated else "arcee"


def causal_lm(model: GPT, special_ids: Mapping[str, int | None]) -> PreTrainedModel:
    """Return a model of transformers with the weights of a GPT, in evaluation mode.

    The padding rows of the vocabulary are left out. special_ids: `bos_token_id` and others, for the config. Raises
    UserError if no architecture computes the model exactly.
    """
    kind = ARCHITECTURES[architecture(model.config)]
    ours, weights = simpler(model) if kind is GPT2 else (model.config, weights_of(model))
    shapes = Shapes(ours, model.vocab_size, model.vocab_size)
    pieces = kind.pieces(shapes)
    biases = {piece.ours: torch.zeros(piece.shape) for piece in pieces if piece.ours.endswith(".bias")}
    values = {**kind.write(shapes), **special_ids}
    theirs: PreTrainedModel = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind.model_type, dtype="float32", **values)
    )
    theirs.load_state_dict({"lm_head.weight": model.output_weight, **to_theirs(pieces, biases | weights)})
    return theirs.eval()


def weights_of(model: GPT) -> Weights:
    """Return our parameters by name, without the padding rows of the vocabulary."""
    embedding = model.embedding.tokens.weight[: model.vocab_size]
    weights = dict(model.named_parameters()) | {
        "embedding.tokens.weight": embedding,
        "head.weight": model.output_weight,
    }
    return {name: value.detach() for name, value in weights.items()}


def simpler(model: GPT) -> tuple[ModelConfig, Weights]:
    """Return a model with what GPT-2 has that computes the same: learned positions, a key for each head, and an
    embedding without a factor, which is stored beside the output projection instead."""
    positions, scale, weights = model.embedding.positions, model.embedding.scale, weights_of(model)
    assert positions is not None
    weights["embedding.tokens.weight"] = weights["embedding.tokens.weight"] * scale
    weights["embedding.positions.weight"] = positions(0, model.config.context).detach()
    for number, block in enumerate(decoder_blocks(model)):
        name = f"blocks.{number}.attention.query_key_value"
        weights |= each_head_its_key(block.attention, layer(name, block.attention.query_key_value))
    tied = model.config.tie_embeddings and scale == 1.0
    return replace(model.config, kv_heads=None, tie_embeddings=tied), weights


def decoder_blocks(model: GPT) -> Iterable[DecoderBlock]:
    """Return the blocks of a GPT."""
    return cast(Iterable[DecoderBlock], model.blocks)
