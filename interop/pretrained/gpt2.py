"""GPT-2 (Radford et al. 2019): pre-norm, LayerNorm, learned positions, biases, tied output."""

from __future__ import annotations

from typing import Any

from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.config_values import Values
from interop.pretrained.weight_mapping import Piece, linear, norm, table
from model.config import ModelConfig

ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}
"""Names of our activations in transformers; the last one of several is written."""

WRITTEN = {ours: theirs for theirs, ours in ACTIVATIONS.items()} | {"gelu_tanh": "gelu_new", "silu": "silu"}


def read(values: Values) -> ModelConfig:
    """Return our config."""
    values.only("scale_attn_weights", (True,), "attention scores are always scaled here")
    values.only("scale_attn_by_inverse_layer_idx", (False,), "attention scores are scaled alike in all layers here")
    values.only("add_cross_attention", (False,), "a language model here has no cross-attention")
    width = values.whole("n_embd", 768)
    return ModelConfig(
        layers=values.whole("n_layer", 12),
        heads=values.whole("n_head", 12),
        width=width,
        feed_forward=values.whole("n_inner", 4 * width),
        context=values.whole("n_positions", 1024),
        norm="layer",
        norm_eps=values.number("layer_norm_epsilon", 1e-5),
        position="learned",
        activation=values.chosen("activation_function", ACTIVATIONS, "gelu_new"),
        qk_norm=False,
        bias=True,
        tie_embeddings=values.flag("tie_word_embeddings", True),
    )


def write(shapes: Shapes) -> dict[str, Any]:
    """Return the config.json."""
    config = shapes.config
    return {
        "vocab_size": shapes.target_vocab,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_embd": config.width,
        "n_inner": config.hidden_width,
        "n_positions": config.context,
        "layer_norm_epsilon": shapes.norm_eps,
        "activation_function": WRITTEN[config.activation],
        "tie_word_embeddings": config.tie_embeddings,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
    }


def pieces(shapes: Shapes) -> list[Piece]:
    """Return all parameters. GPT-2 stores matrices as [in, out]."""
    config, rows = shapes.config, shapes.target_vocab
    width, hidden = config.width, config.hidden_width
    parameters = [
        table("embedding.tokens.weight", "transformer.wte.weight", rows, width),
        table("embedding.positions.weight", "transformer.wpe.weight", config.context, width),
        *norm("norm", "transformer.ln_f", width, True),
    ]
    if not config.tie_embeddings:
        parameters.append(table("head.weight", "lm_head.weight", rows, width))
    for layer in range(config.layers):
        ours, theirs = f"blocks.{layer}", f"transformer.h.{layer}"
        parameters += norm(f"{ours}.attention_norm", f"{theirs}.ln_1", width, True)
        parameters += norm(f"{ours}.feed_forward_norm", f"{theirs}.ln_2", width, True)
        for mine, name, outputs, inputs in (
            ("attention.query_key_value", "attn.c_attn", 3 * width, width),
            ("attention.output", "attn.c_proj", width, width),
            ("feed_forward.expand", "mlp.c_fc", hidden, width),
            ("feed_forward.project", "mlp.c_proj", width, hidden),
        ):
            parameters += linear(f"{ours}.{mine}", [f"{theirs}.{name}"], [outputs], inputs, True, transposed=True)
    return parameters


GPT2 = Architecture(
    "gpt2", "GPT2LMHeadModel", "gpt", read, write, pieces, "transformer.", ignored=r"\.attn\.(masked_)?bias$"
)
