"""The weights of a GPT under the names of llama.cpp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from interop.gguf.architecture import INTERLEAVED
from model.attention import CausalSelfAttention
from model.blocks import DecoderBlock
from model.gpt import GPT
from model.layers import FeedForward

Named = Iterator[tuple[str, Tensor]]


def tensors(model: GPT, kind: str, byte_rows: int, unk_id: int) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of an architecture, matrices as [out, in] float32.

    byte_rows: number of tokens to add to the vocabulary that read and write as the token `unk_id`.
    """
    return {
        name: tensor.detach().float().contiguous().numpy() for name, tensor in _tensors(model, kind, byte_rows, unk_id)
    }


def _tensors(model: GPT, kind: str, byte_rows: int, unk_id: int) -> Named:
    embedding, output = model.embedding.tokens.weight[: model.vocab_size], model.output_weight
    tied = model.config.tie_embeddings and model.embedding.scale == 1.0
    yield "token_embd.weight", _extended(embedding * model.embedding.scale, byte_rows, unk_id)
    if not tied or kind == "apertus":  # which does not look for the embedding instead
        yield "output.weight", _extended(output, byte_rows, unk_id)
    positions = model.embedding.positions
    if positions is not None:
        yield "position_embd.weight", positions(0, positions.context)
    yield from _norm("output_norm", model.norm)
    for number, block in enumerate(cast(Iterable[DecoderBlock], model.blocks)):
        for name, tensor in _block(block, kind):
            yield f"blk.{number}.{name}", tensor


def _extended(table: Tensor, rows: int, unk_id: int) -> Tensor:
    return torch.cat((table, table[unk_id].expand(rows, -1)))


def _block(block: DecoderBlock, kind: str) -> Named:
    yield from _norm("attn_norm", block.attention_norm)
    yield from _attention(block.attention, kind)
    yield from _norm("ffn_norm", block.feed_forward_norm)
    yield from _mlp(block.feed_forward, kind)


def _attention(attention: CausalSelfAttention, kind: str) -> Named:
    fused, head = attention.query_key_value, attention.head_width
    if kind == "gpt2":
        yield from _linear("attn_qkv", fused.weight, fused.bias, needs_bias=True)
        yield from _linear("attn_output", attention.output.weight, attention.output.bias, needs_bias=True)
        return
    keys = attention.kv_heads * head
    sizes = (attention.heads * head, keys, keys)
    biases = (None, None, None) if fused.bias is None else fused.bias.split(sizes)
    for part, weight, bias in zip("qkv", fused.weight.split(sizes), biases, strict=True):
        turned = kind in INTERLEAVED and part != "v"
        yield f"attn_{part}.weight", _interleaved(weight, head) if turned else weight
        if bias is not None:
            yield f"attn_{part}.bias", _interleaved(bias, head) if turned else bias
    yield from _linear("attn_output", attention.output.weight, attention.output.bias)
    if attention.query_key_norm is not None:  # one gain for queries and keys
        yield "attn_q_norm.weight", attention.query_key_norm.weight
        yield "attn_k_norm.weight", attention.query_key_norm.weight


def _mlp(mlp: FeedForward, kind: str) -> Named:
    bias = mlp.expand.bias
    if mlp.activation == "swiglu":
        biases = (None, None) if bias is None else bias.chunk(2)
        for name, weight, part in zip(("ffn_gate", "ffn_up"), mlp.expand.weight.chunk(2), biases, strict=True):
            yield from _linear(name, weight, part)
    else:
        yield from _linear("ffn_up", mlp.expand.weight, bias, needs_bias=kind == "gpt2")
    yield from _linear("ffn_down", mlp.project.weight, mlp.project.bias, needs_bias=kind == "gpt2")


def _linear(name: str, weight: Tensor, bias: Tensor | None, needs_bias: bool = False) -> Named:
    yield f"{name}.weight", weight
    if bias is not None or needs_bias:
        yield f"{name}.bias", torch.zeros(len(weight)) if bias is None else bias


def _norm(name: str, norm: nn.Module) -> Named:
    weight = norm.weight
    assert isinstance(weight, Tensor)
    yield f"{name}.weight", weight
    if isinstance(norm, nn.LayerNorm):
        yield f"{name}.bias", torch.zeros_like(weight) if norm.bias is None else norm.bias


def _interleaved(rows: Tensor, head: int) -> Tensor:
    """Reorder the rows of each head, [heads * head, …]: entries i and i + head / 2 become neighbours."""
    return rows.unflatten(0, (-1, 2, head // 2)).transpose(1, 2).flatten(0, 2)
