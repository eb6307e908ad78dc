"""Check that the peers support a model, and copy weights to the peers' modules; used by all exporters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from model.blocks import DecoderBlock
from model.config import ModelConfig
from model.embedding import Embedding
from model.gpt import GPT

FORBIDDEN = -1e9
"""Logit bias of tokens that are never generated: their probability becomes 0, as with `banned_ids`."""


def require_exportable(config: ModelConfig, positions: tuple[str, ...]) -> None:
    """Raise ValueError, listing every unsupported setting, if the peers do not support the model."""
    needed = (
        ("norm", config.norm == "layer", "layer"),
        ("position", config.position in positions, " or ".join(positions)),
        ("activation", config.activation == "gelu", "gelu"),
        ("qk_norm", not config.qk_norm, "false"),
        ("kv_heads", config.key_value_heads == config.heads, "null"),
        ("tie_embeddings", config.tie_embeddings, "true"),
        ("share_embeddings", config.share_embeddings, "true"),
    )
    found = [f"model.{key}={getattr(config, key)}: must be {value}" for key, holds, value in needed if not holds]
    if found:
        raise ValueError("the peers cannot run this model: " + "; ".join(found))


def position_table(embedding: Embedding) -> Tensor:
    """Return the table of position embeddings, [context, C] float32."""
    positions = embedding.positions
    assert positions is not None
    return positions(0, positions.context).detach()


def never_written() -> list[int]:
    """Return the special ids that a translator must not generate: all except eos."""
    return sorted(SentencePieceTokenizer.special_ids - {SentencePieceTokenizer.eos_id})


@torch.no_grad()
def fill_gpt2(body: Any, model: GPT) -> None:
    """Copy a GPT's weights to modules with GPT-2's original names (Radford et al.): `wte`, `wpe`, `h`, `ln_f`.

    Hugging Face and nanoGPT use these names. Query, key and value form one matrix, in the same order as in our model.
    """
    body.wte.weight.copy_(model.output_weight)
    body.wpe.weight.copy_(position_table(model.embedding))
    for theirs, ours in zip(body.h, model.blocks, strict=True):
        assert isinstance(ours, DecoderBlock)
        fill(theirs.ln_1, ours.attention_norm)
        fill(theirs.attn.c_attn, ours.attention.query_key_value)
        fill(theirs.attn.c_proj, ours.attention.output)
        fill(theirs.ln_2, ours.feed_forward_norm)
        fill(theirs.mlp.c_fc, ours.feed_forward.expand)
        fill(theirs.mlp.c_proj, ours.feed_forward.project)
    fill(body.ln_f, model.norm)


def fill(theirs: Any, ours: nn.Module) -> None:
    """Copy a norm or a linear layer; a bias that exists only in the peer's layer is set to 0."""
    assert isinstance(ours, nn.Linear | nn.LayerNorm)
    theirs.weight.copy_(ours.weight)
    _fill_bias(theirs, ours.bias)


def _fill_bias(theirs: Any, bias: Tensor | None) -> None:
    if bias is not None:
        theirs.bias.copy_(bias)
    elif theirs.bias is not None:
        theirs.bias.zero_()
