"""All attention of the project: one function, softmax(Q Kᵀ / √D) V, and the three thin modules that use it.

`attention` picks the fastest kernel; `reference_attention` spells the same function out in float32 and also returns the
weights. `record_attention` makes a model use the reference for the length of a `with` block and collects the weights;
outside of it no weight matrix is kept alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend

from model.cache import KVCache
from model.config import ModelConfig
from model.fast.attention import explicit_attention
from model.fast.document_mask import block_attention
from model.layers import RMSNorm
from model.positions import rotate

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

_EXPLICIT_LENGTH = 512
"""Keys up to which explicit products beat the fused kernel's bfloat16 backward pass on a CPU: 6 x faster at 64 and 128
keys, 1.9 x at 256, 1.5 x at 512; at 1024 the fused kernel is 1.6 x faster."""

_DECODING_QUERIES = 8
DECODING_HEADS = 64
"""Up to so many queries in each of so many heads of a batch or more, plain float32 products beat the fused kernel on a
CPU: one query of 32 rows with 4 heads takes 0.6 of its time, one of 1 row 1.6. In bfloat16 the kernel is always faster.
"""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | BlockMask | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(Q Kᵀ / √D) V (Vaswani et al. 2017, equation 1) by the fastest kernel for device, dtype and length.

    query [B, H, T, D], key and value [B, Hkv, S, D] with Hkv dividing H (query head h reads key head h // (H / Hkv)).
    causal: query t sees keys up to its own position; with T < S the queries are the last T positions (cached decoding).
    key_mask [B, S] bool: True where a key is a real token; None when all are. Every query must see at least one key.
    [B, T, S]: the keys that each query sees, whose order then means nothing (the hypotheses of a beam search, the
    documents of a window); the same in blocks from `document_mask`, without dropout. dropout: probability of dropping a
    weight; not 0 in training only. Returns [B, H, T, D] in the query's dtype.

    On a CUDA device all of it is fused, by torch's rules of choice (sdp_utils.cpp, 2.11 to 2.13). A decoder's training
    gives the flag and no mask, which flash and cuDNN take in bf16. An encoder and cross-attention give neither where no
    row of the batch is padded, and so run the same kernels; else [B, 1, 1, S], which flash refuses, cuDNN and the
    efficient kernel do not. (Any S: the latter reads rows of 8, to which torch pads the mask itself.) The efficient
    kernel alone takes float32. Which goes first where several fit is the caller's to say
    (`torch.nn.attention.sdpa_kernel`).
    """
    if key_mask is not None and not isinstance(key_mask, Tensor):
        return block_attention(query, key, value, key_mask)
    if _explicit_is_faster(query, key, value, dropout):
        return explicit_attention(query, key, value, _visible(query, key, causal, key_mask), dropout)
    heads = query.shape[:-1]
    query, key, value, visible, flag = _fused_arguments(query, key, value, causal, key_mask)
    mixed = F.scaled_dot_product_attention(query, key, value, visible, dropout, flag, enable_gqa=_grouped(query, key))
    return mixed if mixed.shape[:-1] == heads else mixed.reshape(*heads, -1)  # values may have a width of their own


def reference_attention(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The definition, in float32: (output [B, H, T, D], weights [B, H, T, S]). Arguments as `attention`."""
    groups = query.shape[1] // key.shape[1]
    key = key.float().repeat_interleave(groups, dim=1)  # [B, H, S, D]
    value = value.float().repeat_interleave(groups, dim=1)  # [B, H, S, D]
    scores = query.float() @ key.transpose(-1, -2) / query.shape[-1] ** 0.5  # [B, H, T, S]
    visible = _visible(query, key, causal, key_mask)
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


def attention_backend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> str:
    """Name of the kernel that `attention` would run for these arguments, for the log.

    The fused kernel's name is torch's own answer: the choice depends on device, dtype, head width, mask and versions.
    For some devices, such as Apple's GPUs, torch has no answer; then the name of the function is all there is to say.
    """
    if _explicit_is_faster(query, key, value, dropout):
        return f"explicit {str(query.dtype).removeprefix('torch.')} products"
    query, key, value, visible, flag = _fused_arguments(query, key, value, causal, key_mask)
    try:
        choice = torch._fused_sdp_choice(query, key, value, visible, dropout, flag, enable_gqa=_grouped(query, key))
    except NotImplementedError:
        return "scaled_dot_product_attention"
    return f"scaled_dot_product_attention, {SDPBackend(choice).name.lower().replace('_', ' ')}"


def _visible(query: Tensor, key: Tensor, causal: bool, key_mask: Tensor | None) -> Tensor | None:
    """Which query may see which key: bool, broadcastable to [B, H, T, S]; None when every query sees every key."""
    queries, keys = query.shape[2], key.shape[2]
    if causal and queries > keys:
        raise ValueError(f"{queries} causal queries cannot be the last positions of {keys} keys")
    if key_mask is not None and key_mask.dim() == 3:
        return key_mask.unsqueeze(1)  # [B, 1, T, S]
    visible = None if key_mask is None else key_mask[:, None, None, :]  # [B, 1, 1, S]
    if causal and queries > 1:
        past = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)  # [T, S]
        visible = past if visible is None else visible & past
    return visible


def _fused_arguments(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, key_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, bool]:
    """(query, key, value, attn_mask, is_causal) for torch's fused attention.

    Never mask and flag: torch documents the pair as an error, and its CPU kernel applies both without a word. The flag
    is kept where it says the same as the mask would, because flash kernels refuse masks. (Torch's flag aligns the first
    positions of queries and keys, ours the last.)

    Heads that share keys are spread out where the efficient kernel, which wants as many of both (torch 2.11 to 2.13),
    may be the only one that fits: under a mask and in float32.
    """
    flag = False
    if causal and key_mask is None and query.shape[2] == key.shape[2]:  # decided here: torch takes no symbolic flag
        flag = True
    visible = None if flag else _visible(query, key, causal, key_mask)
    if query.is_cuda and query.shape[1] != key.shape[1] and (visible is not None or query.dtype == torch.float32):
        query, key, value, visible = ungrouped(query, key, value, visible, flag)
    return query, key, value, visible, flag


def _grouped(query: Tensor, key: Tensor) -> bool:
    """Whether query heads share keys; decided by a branch, because torch takes no symbolic flag."""
    if query.shape[1] != key.shape[1]:  # noqa: SIM103
        return True
    return False


def ungrouped(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Grouped-query attention as one with equally many heads: (query, key, value, mask); its output, reshaped, is the
    same.

    Query heads that share a key head become more queries of it, [B, Hkv, G T, D], and no key is copied, unless
    `causal`: that rule would take their order for one of positions.
    """
    kv_heads = key.shape[1]
    groups = query.shape[1] // kv_heads
    if causal:
        return query, key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1), None
    if visible is not None and visible.shape[-2] > 1:  # else it says the same of every query
        visible = torch.cat([visible] * groups, dim=-2)
    return query.reshape(query.shape[0], kv_heads, -1, query.shape[-1]), key, value, visible


def _explicit_is_faster(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> bool:
    """On a CPU the fused kernel is slow backwards in bfloat16, with dropout, and for the few queries of a decoding
    step."""
    if query.device.type != "cpu":
        return False
    if dropout > 0:
        return True
    training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    if not training:
        rows, heads, queries, _ = query.shape
        few, many = queries <= _DECODING_QUERIES, rows * heads >= DECODING_HEADS
        return query.dtype == torch.float32 and few and many
    return query.dtype == torch.bfloat16 and key.shape[2] <= _EXPLICIT_LENGTH


class _Attention(nn.Module):
    """What the three kinds share: heads, their output projection, and the place where a recording steps in."""

    attend = staticmethod(attention)
    """The function in use. `record_attention` covers it with an instance attribute of the same name for a while."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__()
        self.kind = kind
        self.layer = layer
        self.heads = config.heads
        self.kv_heads = config.key_value_heads
        self.head_width = config.head_width
        self.attention_dropout = config.attention_dropout
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def _mix(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        causal: bool = False,
        key_mask: Tensor | BlockMask | None = None,
    ) -> Tensor:
        """Heads [B, H, T, D] to the sum of what they found, [B, T, C]."""
        probability = self.attention_dropout if self.training else 0.0
        mixed = self.attend(query, key, value, causal=causal, key_mask=key_mask, dropout=probability)  # [B, H, T, D]
        return self.output(mixed.transpose(1, 2).flatten(2))

    def value_norms(self, value: Tensor) -> Tensor:
        """value [B, Hkv, S, D] to the norm of what each head adds for it, ‖W_O v‖, [B, H, S] float32."""
        parts = self.output.weight.detach().float().unflatten(1, (self.heads, self.head_width))  # [C, H, D]
        gram = torch.einsum("chd,che->hde", parts, parts)  # [H, D, D]: ‖W v‖² = vᵀ (Wᵀ W) v, without vectors of width C
        value = value.float().repeat_interleave(self.heads // self.kv_heads, dim=1)  # [B, H, S, D]
        return torch.einsum("bhsd,hde,bhse->bhs", value, gram, value).clamp(min=0).sqrt()


class SelfAttention(_Attention):
    """Every token of a sequence looks at every other one (encoder)."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__(config, kind, layer)
        self.query_key_value = nn.Linear(
            config.width, (config.heads + 2 * self.kv_heads) * self.head_width, bias=config.bias
        )
        # One gain for queries and keys alike: their product needs one, and both are then normalised in one pass.
        self.query_key_norm = RMSNorm(self.head_width) if config.qk_norm else None

    def forward(self, x: Tensor, rotation: Tensor | None = None, key_mask: Tensor | None = None) -> Tensor:
        """x [B, T, C] to [B, T, C]; rotation from `RotaryPositions`; key_mask [B, T] bool, True = real token."""
        return self._mix(*self._heads(x, rotation), key_mask=key_mask)

    def _heads(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, H, T, D], keys and values [B, Hkv, T, D], normalised and turned."""
        fused = self.query_key_value(x).unflatten(-1, (-1, self.head_width))  # [B, T, H + 2 Hkv, D]
        if self.query_key_norm is None and rotation is None:
            query, key, value = fused.split((self.heads, self.kv_heads, self.kv_heads), dim=2)
        else:
            query_key, value = fused.split((self.heads + self.kv_heads, self.kv_heads), dim=2)
            if self.query_key_norm is not None:
                query_key = self.query_key_norm(query_key)
            if rotation is not None:
                query_key = rotate(query_key, rotation)
            query, key = query_key.to(value.dtype).split((self.heads, self.kv_heads), dim=2)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


class CausalSelfAttention(SelfAttention):
    """Every token looks at itself and at those before it (decoder)."""

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
        documents: Tensor | BlockMask | None = None,
    ) -> Tensor:
        """x [B, T, C] to [B, T, C]. With a cache, x are the T tokens that follow those in it, all of one document.

        documents: from `document_mask`, where rows hold several; None lets a token see all before it.
        """
        query, key, value = self._heads(x, rotation)
        key_mask = documents
        if cache is not None:
            key, value, key_mask = cache.append(self.layer, key, value)
        return self._mix(query, key, value, causal=True, key_mask=key_mask)


class CrossAttention(_Attention):
    """Tokens of the target look at all tokens of the source. No rotary positions: the two sides count apart."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__(config, kind, layer)
        self.query = nn.Linear(config.width, config.width, bias=config.bias)
        self.key_value = nn.Linear(config.width, 2 * self.kv_heads * self.head_width, bias=config.bias)
        self.query_key_norm = RMSNorm(self.head_width) if config.qk_norm else None

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, Hkv, S, D] of the encoder's output [B, S, C]; computed once per source."""
        fused = self.key_value(memory).unflatten(-1, (-1, self.head_width))  # [B, S, 2 Hkv, D]
        key, value = fused.split(self.kv_heads, dim=2)
        if self.query_key_norm is not None:
            key = self.query_key_norm(key).to(value.dtype)
        return key.transpose(1, 2), value.transpose(1, 2)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """x [B, T, C] to [B, T, C]; key and value from `keys_values`; source_mask [B, S] bool, True = real token."""
        query = self.query(x).unflatten(-1, (-1, self.head_width))  # [B, T, H, D]
        if self.query_key_norm is not None:
            query = self.query_key_norm(query).to(value.dtype)
        return self._mix(query.transpose(1, 2), key, value, key_mask=source_mask)


@dataclass
class AttentionRecording:
    """What the heads did in the last forward pass; keys are (kind, layer), kind is decoder, encoder or cross."""

    weights: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Attention weights [B, H, Q, K] float32: rows are queries and sum to 1."""

    outputs: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """What each head found, [B, H, Q, D] float32: weights @ values, before the output projection."""

    values: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """How much a key adds where it is looked at, [B, H, K] float32: the norm of its value after the head's part of the
    output projection (Kobayashi et al. 2020). A sink that is looked at and adds nothing has a small one."""

    deviation: float = 0.0
    """Largest difference between weights @ values and what the fused kernel gives for the same heads, as a share of
    the largest output: rounding only, or the weights are not those that the model uses."""

    def _attend(
        self,
        module: _Attention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        causal: bool = False,
        key_mask: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """`reference_attention` that remembers; without dropout, whose noise says nothing about the heads."""
        place = module.kind, module.layer
        mixed, weights = reference_attention(query, key, value, causal=causal, key_mask=key_mask)
        self.weights[place] = weights.detach()
        self.outputs[place] = mixed.detach()
        self.values[place] = module.value_norms(value.detach())
        with torch.no_grad():
            fused = attention(query, key, value, causal=causal, key_mask=key_mask).float()
            deviation = (mixed - fused).abs().max() / mixed.abs().max().clamp(min=1e-12)
            self.deviation = float(torch.tensor([self.deviation, deviation]).max())  # NaN stays: the model diverged
        return mixed.to(query.dtype)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[AttentionRecording]:
    """Record the attention of every forward pass of `model` (not compiled) inside the block.

    with torch.no_grad(), record_attention(model) as recording:
        model(tokens)
    recording.weights["decoder", 0]  # [B, H, T, T]

    Afterwards the model is as before and only the recording holds the maps. One recording at a time per model.
    """
    recording = AttentionRecording()
    modules = [module for module in model.modules() if isinstance(module, _Attention)]
    for module in modules:
        module.attend = partial(recording._attend, module)
    try:
        yield recording
    finally:
        for module in modules:
            del module.attend


def head_places(model: nn.Module) -> list[tuple[str, int, int]]:
    """(kind, layer, head) of every head, in the order of kinds and layers."""
    modules = [module for module in model.modules() if isinstance(module, _Attention)]
    return sorted((module.kind, module.layer, head) for module in modules for head in range(module.heads))


@contextmanager
def silence_head(model: nn.Module, kind: str, layer: int, head: int) -> Iterator[None]:
    """Let one head of `model` (not compiled) add nothing inside the block: its output is zero (Michel et al. 2019).

    Raises LookupError for a head that is not there.
    """
    modules = [module for module in model.modules() if isinstance(module, _Attention)]
    found = [module for module in modules if (module.kind, module.layer) == (kind, layer) and head < module.heads]
    if not found:
        raise LookupError(f"no head {head} in {kind} layer {layer}")
    (module,) = found

    def without(query: Tensor, key: Tensor, value: Tensor, **settings: Any) -> Tensor:
        mixed = attention(query, key, value, **settings).clone()  # [B, H, T, D]
        mixed[:, head] = 0
        return mixed

    module.attend = without
    try:
        yield
    finally:
        del module.attend
