"""GPT-NeoX (Black et al. 2022) and Pythia: attention and MLP side by side, a part of each head rotated."""

from __future__ import annotations

from typing import Any

from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.gpt2 import ACTIVATIONS, WRITTEN
from interop.pretrained.pieces import Piece, linear, norm, table
from interop.pretrained.values import Values
from model.config import ModelConfig


def read(values: Values) -> ModelConfig:
    """Return our config."""
    values.only("attention_bias", (True,), "a model here has biases in all linear layers or in none")
    rotary = values.rotary(base="rotary_emb_base", fraction="rotary_pct", part=0.25)
    config = ModelConfig(
        layers=values.whole("num_hidden_layers", 44),
        heads=values.whole("num_attention_heads", 64),
        width=values.whole("hidden_size", 6144),
        feed_forward=values.whole("intermediate_size", 24576),
        context=values.whole("max_position_embeddings", 2048),
        block="parallel" if values.flag("use_parallel_residual", True) else "pre_norm",
        norm="layer",
        norm_eps=values.number("layer_norm_eps", 1e-5),
        activation=values.chosen("hidden_act", ACTIVATIONS, "gelu"),
        qk_norm=False,
        bias=True,
        tie_embeddings=values.flag("tie_word_embeddings", False),
        **rotary,
    )
    if config.rotary_fraction <= 1 and int(config.head_width * config.rotary_fraction) % 2:
        turned = f"turns {config.head_width * config.rotary_fraction:g} of the {config.head_width} channels of a head"
        values.refuse("partial_rotary_factor", config.rotary_fraction, f"{turned}; here it must be an even number")
    return config


def write(shapes: Shapes) -> dict[str, Any]:
    """Return the config.json."""
    config = shapes.config
    return {
        "vocab_size": shapes.target_vocab,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "hidden_size": config.width,
        "intermediate_size": config.hidden_width,
        "max_position_embeddings": config.context,
        "use_parallel_residual": config.block == "parallel",
        "layer_norm_eps": shapes.norm_eps,
        "hidden_act": WRITTEN[config.activation],
        "tie_word_embeddings": config.tie_embeddings,
        "attention_bias": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": config.rotary_base,
            "partial_rotary_factor": config.rotary_fraction,
        },
        "hidden_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
    }


def pieces(shapes: Shapes) -> list[Piece]:
    """Return all parameters."""
    config, rows = shapes.config, shapes.target_vocab
    width, hidden = config.width, config.hidden_width
    found = [
        table("embedding.tokens.weight", "gpt_neox.embed_in.weight", rows, width),
        *norm("norm", "gpt_neox.final_layer_norm", width, True),
    ]
    if not config.tie_embeddings:
        found.append(table("head.weight", "embed_out.weight", rows, width))
    order = fused_order(config)
    for layer in range(config.layers):
        ours, theirs = f"blocks.{layer}", f"gpt_neox.layers.{layer}"
        found += norm(f"{ours}.attention_norm", f"{theirs}.input_layernorm", width, True)
        found += norm(f"{ours}.feed_forward_norm", f"{theirs}.post_attention_layernorm", width, True)
        fused = [f"{theirs}.attention.query_key_value"]
        found += linear(f"{ours}.attention.query_key_value", fused, [3 * width], width, True, row_order=order)
        found += linear(f"{ours}.attention.output", [f"{theirs}.attention.dense"], [width], width, True)
        found += linear(f"{ours}.feed_forward.expand", [f"{theirs}.mlp.dense_h_to_4h"], [hidden], width, True)
        found += linear(f"{ours}.feed_forward.project", [f"{theirs}.mlp.dense_4h_to_h"], [width], hidden, True)
    return found


def fused_order(config: ModelConfig) -> list[int]:
    """Return the order of the fused rows: theirs are head by head (query, key and value of a head), ours are first the
    queries of all heads, then the keys, then the values.

    The channels of queries and keys that turn together are half a rotated part apart in theirs (the first R channels),
    and half a head apart in ours: scores are sums over channels, whatever their order.
    """
    width, turned = config.head_width, config.rotary_width
    pairs, rest = turned // 2, (width - turned) // 2
    rotated = [*range(pairs), *range(turned, turned + rest), *range(pairs, turned), *range(turned + rest, width)]
    return [
        head * 3 * width + part * width + channel
        for part, channels in enumerate((rotated, rotated, range(width)))
        for head in range(config.heads)
        for channel in channels
    ]


GPT_NEOX = Architecture(
    "gpt_neox",
    "GPTNeoXForCausalLM",
    "gpt",
    read,
    write,
    pieces,
    "gpt_neox.",
    ignored=r"\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)$|\.rotary_emb\.inv_freq$",
    aliases={"embed_out.weight": ("lm_head.weight",)},
)
