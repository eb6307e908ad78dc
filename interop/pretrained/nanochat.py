"""NanoChat (Karpathy 2025): squared ReLU, norms without gain, a norm after the embedding, capped logits.

It rotates by the opposite angle, and normalises queries and keys after the rotation instead of before it. Exchanging
the halves of each head of queries and keys makes the first the same as here; the second is the same anyway, since a
rotation does not change the length of a vector.
"""

from __future__ import annotations

from typing import Any

from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.gpt2 import ACTIVATIONS, WRITTEN
from interop.pretrained.pieces import Piece, heads_in_order, linear, table
from interop.pretrained.values import Values
from model.config import ModelConfig


def read(values: Values) -> ModelConfig:
    """Return our config."""
    values.only("attention_bias", (False,), "a model here has biases in all linear layers or in none")
    rotary = values.rotary()
    heads, cap = values.whole("num_attention_heads", 6), values.content.get("final_logit_softcapping", 15.0)
    return ModelConfig(
        layers=values.whole("num_hidden_layers", 12),
        heads=heads,
        kv_heads=values.whole("num_key_value_heads", heads),
        width=values.whole("hidden_size", 768),
        feed_forward=values.whole("intermediate_size", 8192),
        context=values.whole("max_position_embeddings", 2048),
        norm_eps=values.number("rms_norm_eps", 1e-6),
        norm_gain=False,
        rotary_base=rotary["rotary_base"],
        activation=values.chosen("hidden_act", ACTIVATIONS, "relu2"),
        embedding_norm=True,
        logit_cap=None if cap is None else values.number("final_logit_softcapping", 15.0),
        tie_embeddings=values.flag("tie_word_embeddings", False),
    )


def write(shapes: Shapes) -> dict[str, Any]:
    """Return the config.json."""
    config = shapes.config
    return {
        "vocab_size": shapes.target_vocab,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads,
        "hidden_size": config.width,
        "intermediate_size": config.hidden_width,
        "max_position_embeddings": config.context,
        "rms_norm_eps": shapes.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base},
        "hidden_act": WRITTEN[config.activation],
        "final_logit_softcapping": config.logit_cap,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_bias": False,
        "attention_dropout": config.attention_dropout,
    }


def pieces(shapes: Shapes) -> list[Piece]:
    """Return all parameters."""
    config, rows = shapes.config, shapes.target_vocab
    width, hidden, head = config.width, config.hidden_width, config.head_width
    keys = config.key_value_heads * head
    swapped = [*range(head // 2, head), *range(head // 2)]
    order = [*heads_in_order(config.heads + config.key_value_heads, swapped), *range(width + keys, width + 2 * keys)]
    found = [table("embedding.tokens.weight", "model.embed_tokens.weight", rows, width)]
    if not config.tie_embeddings:
        found.append(table("head.weight", "lm_head.weight", rows, width))
    for layer in range(config.layers):
        ours, theirs = f"blocks.{layer}", f"model.layers.{layer}"
        fused = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
        parts = [width, keys, keys]
        found += linear(f"{ours}.attention.query_key_value", fused, parts, width, False, row_order=order)
        found += linear(f"{ours}.attention.output", [f"{theirs}.self_attn.o_proj"], [width], width, False)
        found += linear(f"{ours}.feed_forward.expand", [f"{theirs}.mlp.fc1"], [hidden], width, False)
        found += linear(f"{ours}.feed_forward.project", [f"{theirs}.mlp.fc2"], [width], hidden, False)
    return found


NANOCHAT = Architecture("nanochat", "NanoChatForCausalLM", "gpt", read, write, pieces, "model.")
