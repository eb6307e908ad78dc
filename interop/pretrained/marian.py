"""Marian (Junczys-Dowmunt et al. 2018; the OPUS-MT models): the post-norm encoder-decoder of Vaswani et al. 2017.

Its sinusoidal positions have all sines before all cosines, ours alternate. The channels of the whole model are
therefore reordered: a residual stream has no order of its own.
"""

from __future__ import annotations

from typing import Any

from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.config_values import Values
from interop.pretrained.gpt2 import ACTIVATIONS, WRITTEN
from interop.pretrained.weight_mapping import Piece, linear, norm, table
from model.config import ModelConfig


def read(values: Values) -> ModelConfig:
    """Return our config."""
    values.same("encoder_attention_heads", "decoder_attention_heads")
    values.same("encoder_ffn_dim", "decoder_ffn_dim")
    return ModelConfig(
        layers=values.whole("decoder_layers", 12),
        encoder_layers=values.whole("encoder_layers", 12),
        heads=values.whole("encoder_attention_heads", 16),
        width=values.whole("d_model", 1024),
        feed_forward=values.whole("encoder_ffn_dim", 4096),
        context=values.whole("max_position_embeddings", 1024),
        block="post_norm",
        norm="layer",
        position="sinusoidal",
        activation=values.chosen("activation_function", ACTIVATIONS, "gelu"),
        qk_norm=False,
        bias=True,
        embedding_scale=None if values.flag("scale_embedding", False) else 1.0,
        output_bias=True,
        tie_embeddings=values.flag("tie_word_embeddings", True),
        share_embeddings=values.flag("share_encoder_decoder_embeddings", True),
    )


def write(shapes: Shapes) -> dict[str, Any]:
    """Return the config.json."""
    config = shapes.config
    return {
        "vocab_size": shapes.source_vocab,
        "decoder_vocab_size": shapes.target_vocab,
        "d_model": config.width,
        "encoder_layers": config.encoder_depth,
        "decoder_layers": config.layers,
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), config.heads),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), config.hidden_width),
        "max_position_embeddings": config.context,
        "activation_function": WRITTEN[config.activation],
        "scale_embedding": config.embedding_scale is None,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "tie_word_embeddings": config.tie_embeddings,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "is_encoder_decoder": True,
    }


def pieces(shapes: Shapes) -> list[Piece]:
    """Return all parameters."""
    config, rows = shapes.config, shapes.target_vocab
    order = [channel // 2 + channel % 2 * (config.width // 2) for channel in range(config.width)]

    def read_table(ours: str, theirs: str, size: int) -> Piece:
        return table(ours, theirs, size, config.width, column_order=order)

    shared = config.share_embeddings
    target = "model.shared.weight" if shared else "model.decoder.embed_tokens.weight"
    parameters = [
        read_table("target_embedding.tokens.weight", target, rows),
        Piece("head.bias", ("final_logits_bias",), (rows,), (rows,), in_batch=True, optional=True),
    ]
    if not shared:
        parameters.append(
            read_table("source_embedding.tokens.weight", "model.encoder.embed_tokens.weight", shapes.source_vocab)
        )
    if not config.tie_embeddings:
        parameters.append(read_table("head.weight", "lm_head.weight", rows))
    for side, depth in (("encoder", config.encoder_depth), ("decoder", config.layers)):
        for layer in range(depth):
            parameters += block(config, side, layer, order)
    return parameters


def block(config: ModelConfig, side: str, layer: int, order: list[int]) -> list[Piece]:
    """Return the parameters of a block. order: of the channels of the residual stream."""
    ours, theirs = f"{side}.{layer}", f"model.{side}.layers.{layer}"
    width, hidden = config.width, config.hidden_width
    parameters: list[Piece] = []

    def reads(mine: str, names: list[str], rows: list[int]) -> None:
        parts = [f"{theirs}.{name}" for name in names]
        parameters.extend(linear(f"{ours}.{mine}", parts, rows, width, True, column_order=order))

    def writes(mine: str, name: str, columns: int) -> None:
        parameters.extend(linear(f"{ours}.{mine}", [f"{theirs}.{name}"], [width], columns, True, row_order=order))

    reads("attention.query_key_value", [f"self_attn.{part}_proj" for part in "qkv"], [width] * 3)
    writes("attention.output", "self_attn.out_proj", width)
    reads("feed_forward.expand", ["fc1"], [hidden])
    writes("feed_forward.project", "fc2", hidden)
    norms = {"attention_norm": "self_attn_layer_norm", "feed_forward_norm": "final_layer_norm"}
    if side == "decoder":
        reads("cross_attention.query", ["encoder_attn.q_proj"], [width])
        reads("cross_attention.key_value", ["encoder_attn.k_proj", "encoder_attn.v_proj"], [width] * 2)
        writes("cross_attention.output", "encoder_attn.out_proj", width)
        norms["cross_norm"] = "encoder_attn_layer_norm"
    for mine, name in norms.items():
        parameters += norm(f"{ours}.{mine}", f"{theirs}.{name}", width, True, order=order)
    return parameters


MARIAN = Architecture(
    "marian",
    "MarianMTModel",
    "translate",
    read,
    write,
    pieces,
    aliases={
        "model.shared.weight": (
            "lm_head.weight",
            "model.decoder.embed_tokens.weight",
            "model.encoder.embed_tokens.weight",
        ),
        "model.decoder.embed_tokens.weight": ("lm_head.weight",),
    },
    ignored=r"\.embed_positions\.weight$",
)
