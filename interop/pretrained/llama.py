"""Llama (Touvron et al. 2023) and architectures built like it, as far as our blocks compute them: pre-norm, rotary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.config_values import Values
from interop.pretrained.gpt2 import ACTIVATIONS, WRITTEN
from interop.pretrained.weight_mapping import Piece, linear, norm, table
from model.config import ModelConfig


@dataclass(frozen=True)
class Variant:
    """What distinguishes an architecture from the others."""

    class_name: str
    layer_norm: bool = False
    eps: tuple[str, float] = ("rms_norm_eps", 1e-6)
    """Key of the constant in norms, and its default."""
    biases: tuple[str, ...] = ()
    """Keys that add biases to linear layers."""
    bias: bool = False
    """Their default."""
    norms: tuple[str, str] = ("input_layernorm", "post_attention_layernorm")
    mlp: tuple[str, ...] = ("up_proj", "down_proj")
    """Names of the layers of the MLP; of three, the first is the gate."""
    activation: str = "silu"
    """Default of `hidden_act`."""
    query_key_norm: bool = False
    tied: bool = False
    """Default of `tie_word_embeddings`."""
    part: float = 1.0
    """Default of `partial_rotary_factor`. Whole heads are rotated here."""
    absent: tuple[str, ...] = ()
    """Settings that must be false: parts that our blocks lack."""


GATED = ("gate_proj", "up_proj", "down_proj")
VARIANTS = {
    "llama": Variant("LlamaForCausalLM", biases=("attention_bias", "mlp_bias"), mlp=GATED),
    "arcee": Variant(
        "ArceeForCausalLM", eps=("rms_norm_eps", 1e-5), biases=("attention_bias", "mlp_bias"), activation="relu2"
    ),
    "qwen3": Variant("Qwen3ForCausalLM", mlp=GATED, query_key_norm=True),
    "apertus": Variant(
        "ApertusForCausalLM",
        eps=("rms_norm_eps", 1e-5),
        norms=("attention_layernorm", "feedforward_layernorm"),
        activation="xielu",
        query_key_norm=True,
    ),
    "starcoder2": Variant(
        "Starcoder2ForCausalLM",
        layer_norm=True,
        eps=("norm_epsilon", 1e-5),
        biases=("use_bias",),
        bias=True,
        mlp=("c_fc", "c_proj"),
        activation="gelu_pytorch_tanh",
        tied=True,
    ),
    "stablelm": Variant(
        "StableLmForCausalLM",
        layer_norm=True,
        eps=("layer_norm_eps", 1e-5),
        mlp=GATED,
        part=0.25,
        absent=("use_qkv_bias", "qk_layernorm", "use_parallel_residual"),
    ),
}
"""By `model_type`."""


def read(variant: Variant, values: Values) -> ModelConfig:
    """Return our config."""
    gated = len(variant.mlp) == 3
    heads, width = values.whole("num_attention_heads"), values.whole("hidden_size")
    biases = {key: values.flag(key, variant.bias) for key in variant.biases}
    for key, value in biases.items():
        if value != all(biases.values()):
            values.refuse(key, value, "a model here has biases in all linear layers or in none")
    if not variant.biases:
        values.only("attention_bias", (False,), "a model here has biases in all linear layers or in none")
    for key in variant.absent:
        values.only(key, (False,), "not computed here")
    if values.content.get("use_sliding_window", True):
        values.only("sliding_window", (None,), "attention reaches all earlier tokens here")
    if (head := values.content.get("head_dim")) not in (None, width / heads):
        fix = f"heads are hidden_size / num_attention_heads = {width / heads:g} wide here"
        values.refuse("head_dim", head, f"{fix}; choose a model with such heads")
    choices = {"silu": "swiglu"} if gated else ACTIVATIONS
    eps, default_eps = variant.eps
    return ModelConfig(
        layers=values.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=values.whole("num_key_value_heads", heads),
        width=width,
        feed_forward=values.whole("intermediate_size"),
        context=values.whole("max_position_embeddings"),
        norm="layer" if variant.layer_norm else "rms",
        norm_eps=values.number(eps, default_eps),
        rotary_base=values.rotary_base(variant.part),
        activation=values.chosen("hidden_act", choices, variant.activation),
        qk_norm=variant.query_key_norm,
        bias=bool(biases) and all(biases.values()),
        tie_embeddings=values.flag("tie_word_embeddings", variant.tied),
    )


def write(variant: Variant, shapes: Shapes) -> dict[str, Any]:
    """Return the config.json."""
    config = shapes.config
    part = {"partial_rotary_factor": 1.0} if variant.part < 1 else {}
    return {
        "vocab_size": shapes.target_vocab,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads,
        "hidden_size": config.width,
        "head_dim": config.head_width,
        "intermediate_size": config.hidden_width,
        "max_position_embeddings": config.context,
        variant.eps[0]: shapes.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base, **part},
        "hidden_act": "silu" if config.activation == "swiglu" else WRITTEN[config.activation],
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": config.attention_dropout,
        **dict.fromkeys(variant.biases, config.bias),
        **dict.fromkeys(variant.absent, False),
    }


def pieces(variant: Variant, shapes: Shapes) -> list[Piece]:
    """Return all parameters."""
    config, rows, bias = shapes.config, shapes.target_vocab, shapes.config.bias
    width, hidden, head = config.width, config.hidden_width, config.head_width
    norm_bias = variant.layer_norm and bias
    keys = config.key_value_heads * head
    parameters = [
        table("embedding.tokens.weight", "model.embed_tokens.weight", rows, width),
        *norm("norm", "model.norm", width, norm_bias),
    ]
    if not config.tie_embeddings:
        parameters.append(table("head.weight", "lm_head.weight", rows, width))
    for layer in range(config.layers):
        ours, theirs = f"blocks.{layer}", f"model.layers.{layer}"
        attention = f"{theirs}.self_attn"
        parameters += norm(f"{ours}.attention_norm", f"{theirs}.{variant.norms[0]}", width, norm_bias)
        parameters += norm(f"{ours}.feed_forward_norm", f"{theirs}.{variant.norms[1]}", width, norm_bias)
        fused, parts = [f"{attention}.{part}_proj" for part in "qkv"], [width, keys, keys]
        parameters += linear(f"{ours}.attention.query_key_value", fused, parts, width, bias)
        parameters += linear(f"{ours}.attention.output", [f"{attention}.o_proj"], [width], width, bias)
        *expand, project = (f"{theirs}.mlp.{name}" for name in variant.mlp)
        parameters += linear(f"{ours}.feed_forward.expand", expand, [hidden] * len(expand), width, bias)
        parameters += linear(f"{ours}.feed_forward.project", [project], [width], hidden, bias)
        if variant.query_key_norm:
            gains = tuple(f"{attention}.{part}_norm.weight" for part in "qk")
            parameters.append(
                Piece(f"{ours}.attention.query_key_norm.weight", gains, (head,), (head, head), equal=True)
            )
        if variant.layer_norm and not bias:  # LayerNorm always has a bias there
            norms = (f"{theirs}.{name}.bias" for name in variant.norms)
            parameters += [Piece("", (name,), (width,), (width,)) for name in norms]
    if variant.layer_norm and not bias:
        parameters.append(Piece("", ("model.norm.bias",), (width,), (width,)))
    return parameters


ARCHITECTURES = [
    Architecture(
        name,
        variant.class_name,
        "gpt",
        partial(read, variant),
        partial(write, variant),
        partial(pieces, variant),
        "model.",
        ignored=r"\.rotary_emb\.inv_freq$",
    )
    for name, variant in VARIANTS.items()
]
