"""The architecture of transformers that computes a GPT exactly, with our weights in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from configs.errors import UserError
from interop.family import foreign_options
from interop.huggingface.weights import ACTIVATIONS, Weights, each_head_its_key, layer, load, norm_eps, split
from model.blocks import DecoderBlock
from model.config import ModelConfig
from model.gpt import GPT


@dataclass(frozen=True)
class Rotary:
    """Names in an architecture that is built like Llama."""

    norms: tuple[str, str]
    """Names of the norms before attention and MLP."""

    mlp: tuple[str, ...]
    """Names of the layers of the MLP: (gate,) up and down."""

    biases: tuple[str, ...]
    """Settings that add biases to linear layers."""

    eps: str
    """Setting for the constant in the norms."""

    more: dict[str, Any]
    """Further settings."""


_LLAMA = ("input_layernorm", "post_attention_layernorm")
_GATED = ("gate_proj", "up_proj", "down_proj")
_PLAIN = ("up_proj", "down_proj")

ROTARY = {
    "apertus": Rotary(("attention_layernorm", "feedforward_layernorm"), _PLAIN, (), "rms_norm_eps", {}),
    "arcee": Rotary(_LLAMA, _PLAIN, ("attention_bias", "mlp_bias"), "rms_norm_eps", {}),
    "qwen3": Rotary(_LLAMA, _GATED, (), "rms_norm_eps", {}),
    "llama": Rotary(_LLAMA, _GATED, ("attention_bias", "mlp_bias"), "rms_norm_eps", {}),
    "starcoder2": Rotary(_LLAMA, ("c_fc", "c_proj"), ("use_bias",), "norm_epsilon", {}),
    "stablelm": Rotary(_LLAMA, _GATED, (), "layer_norm_eps", {"use_qkv_bias": False}),
}
"""Architectures with rotary positions, by `model_type`. Query-key norms: apertus and qwen3. LayerNorm: starcoder2 and
stablelm."""


def architecture(config: ModelConfig) -> str:
    """Return the `model_type` that computes this GPT exactly. Raises UserError naming each option that none computes,
    and what to train instead."""
    rotary, gated = config.position == "rotary", config.activation == "swiglu"
    layer_norm, qk_norm, bias = config.norm == "layer", config.qk_norm, config.bias
    refused = foreign_options(config, "transformers") + [
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
    kind = architecture(model.config)
    values, weights = _gpt2(model) if kind == "gpt2" else _rotary(model, kind)
    config = AutoConfig.for_model(kind, vocab_size=model.vocab_size, dtype="float32", **values, **special_ids)
    theirs: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    load(theirs, weights | {"lm_head.weight": model.output_weight})
    return theirs.eval()


def _rotary(model: GPT, kind: str) -> tuple[dict[str, Any], Weights]:
    """Return the config and the weights of an architecture that is built like Llama."""
    ours, names = model.config, ROTARY[kind]
    values = {
        "hidden_size": ours.width,
        "intermediate_size": ours.hidden_width,
        "num_hidden_layers": ours.layers,
        "num_attention_heads": ours.heads,
        "num_key_value_heads": ours.key_value_heads,
        "head_dim": ours.head_width,
        "hidden_act": ACTIVATIONS[ours.activation],
        "max_position_embeddings": ours.context,
        names.eps: norm_eps(model.norm),
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        "tie_word_embeddings": ours.tie_embeddings,
        "attention_dropout": ours.attention_dropout,
        **dict.fromkeys(names.biases, ours.bias),
        **names.more,
    }
    weights = {"model.embed_tokens.weight": model.embedding.tokens.weight[: model.vocab_size]}
    weights |= layer("model.norm", model.norm)
    keys = ours.key_value_heads * ours.head_width
    for number, block in enumerate(decoder_blocks(model)):
        place = f"model.layers.{number}"
        attention, mlp = block.attention, block.feed_forward
        weights |= layer(f"{place}.{names.norms[0]}", block.attention_norm)
        weights |= layer(f"{place}.{names.norms[1]}", block.feed_forward_norm)
        projections = [f"{place}.self_attn.{part}_proj" for part in "qkv"]
        weights |= split(projections, (ours.width, keys, keys), layer("", attention.query_key_value))
        weights |= layer(f"{place}.self_attn.o_proj", attention.output)
        if attention.query_key_norm is not None:
            weights |= layer(f"{place}.self_attn.q_norm", attention.query_key_norm)
            weights |= layer(f"{place}.self_attn.k_norm", attention.query_key_norm)
        *expand, project = (f"{place}.mlp.{name}" for name in names.mlp)
        weights |= split(expand, [ours.hidden_width] * len(expand), layer("", mlp.expand))
        weights |= layer(project, mlp.project)
    return values, weights


def _gpt2(model: GPT) -> tuple[dict[str, Any], Weights]:
    """Return the config and the weights of GPT-2. It stores matrices transposed, and every head has its own key."""
    ours = model.config
    positions = model.embedding.positions
    assert positions is not None
    # GPT-2 cannot scale the embedding: a scaled table is stored beside the output projection.
    scaled = model.embedding.scale != 1.0
    values = {
        "n_positions": ours.context,
        "n_embd": ours.width,
        "n_layer": ours.layers,
        "n_head": ours.heads,
        "n_inner": ours.hidden_width,
        "activation_function": ACTIVATIONS[ours.activation],
        "layer_norm_epsilon": norm_eps(model.norm),
        "tie_word_embeddings": ours.tie_embeddings and not scaled,
        "embd_pdrop": ours.dropout,
        "resid_pdrop": ours.dropout,
        "attn_pdrop": ours.attention_dropout,
    }
    weights = {
        "transformer.wte.weight": model.embedding.tokens.weight[: model.vocab_size] * model.embedding.scale,
        "transformer.wpe.weight": positions(0, ours.context),
        **layer("transformer.ln_f", model.norm),
    }
    for number, block in enumerate(decoder_blocks(model)):
        place = f"transformer.h.{number}"
        weights |= layer(f"{place}.ln_1", block.attention_norm) | layer(f"{place}.ln_2", block.feed_forward_norm)
        linear = each_head_its_key(block.attention, layer(f"{place}.attn.c_attn", block.attention.query_key_value))
        linear |= layer(f"{place}.attn.c_proj", block.attention.output)
        linear |= layer(f"{place}.mlp.c_fc", block.feed_forward.expand)
        linear |= layer(f"{place}.mlp.c_proj", block.feed_forward.project)
        weights |= {name: value.t() if value.dim() == 2 else value for name, value in linear.items()}
    return values, weights


def decoder_blocks(model: GPT) -> Iterable[DecoderBlock]:
    """Return the blocks of a GPT."""
    return cast(Iterable[DecoderBlock], model.blocks)
