"""A Chumoku translator for Hugging Face transformers: an encoder-decoder in plain PyTorch, in one file.

`export.py` of Chumoku copies this file beside the weights; load them with
`AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)`.

Blocks are pre-norm. Shapes: B batch, T target length, S source length, C width, H heads, D head width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
    StoppingCriteria,
)
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

CACHE = "cache" if "cache" in Seq2SeqLMOutput.__dataclass_fields__ else "past_key_values"
"""What this version of transformers calls the keys and values of the tokens so far."""


class ChumokuConfig(PretrainedConfig):
    """The architecture; the names are those of Chumoku's settings."""

    model_type = "chumoku"
    attribute_map = {  # noqa: RUF012 (names by which transformers asks for sizes)
        "hidden_size": "width",
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads",
        "num_key_value_heads": "kv_heads",
        "max_position_embeddings": "context",
    }

    def __init__(
        self,
        vocab_size: int = 8000,
        source_vocab_size: int | None = None,
        layers: int = 3,
        encoder_layers: int = 3,
        heads: int = 4,
        kv_heads: int = 4,
        width: int = 256,
        feed_forward: int = 1024,
        context: int = 128,
        norm: str = "rms",
        position: str = "rotary",
        activation: str = "relu2",
        qk_norm: bool = True,
        cross_qk_norm: bool = False,
        bias: bool = False,
        share_embeddings: bool = True,
        tie_embeddings: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        initializer_range: float = 0.02,
        **kwargs: Any,
    ) -> None:
        """norm: rms, layer. position: rotary, learned, sinusoidal. activation: relu2, gelu, swiglu. share_embeddings:
        source and target have one table. tie_embeddings: target and output have one table."""
        self.vocab_size, self.source_vocab_size = vocab_size, source_vocab_size or vocab_size
        self.layers, self.encoder_layers = layers, encoder_layers
        self.heads, self.kv_heads, self.width, self.feed_forward = heads, kv_heads, width, feed_forward
        self.context = context
        self.norm, self.position, self.activation = norm, position, activation
        self.qk_norm, self.cross_qk_norm, self.bias = qk_norm, cross_qk_norm, bias
        self.share_embeddings, self.tie_embeddings = share_embeddings, tie_embeddings
        self.dropout, self.attention_dropout, self.initializer_range = dropout, attention_dropout, initializer_range
        # The second switches on what `_tied_weights_keys` says.
        super().__init__(**{"is_encoder_decoder": True, "tie_word_embeddings": True} | kwargs)


def angles(start: int, length: int, width: int, device: torch.device) -> Tensor:
    """Return p / 10000^(2i / width) of each position p and pair i, [T, width / 2] float32, computed in float64."""
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    positions = torch.arange(start, start + length, dtype=torch.float64, device="cpu")
    return torch.outer(positions, frequencies).to(device, torch.float32)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair (i, i + D/2) of x [B, H, T, D] by angles [T, D/2] (Su et al. 2021)."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    """The parts that self-attention and cross-attention share."""

    def __init__(self, config: ChumokuConfig, layer: int, qk_norm: bool) -> None:
        super().__init__()
        self.layer, self.heads, self.kv_heads = layer, config.heads, config.kv_heads
        self.head_width = config.width // config.heads
        self.dropout = config.attention_dropout
        self.query_key_norm = nn.RMSNorm(self.head_width, eps=1e-6) if qk_norm else None
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def split(self, fused: Tensor) -> Tensor:
        """Divide [B, T, heads · D] into heads, [B, heads, T, D]."""
        return fused.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attend with all heads [B, H, T, D] and project the result to [B, T, C]; mask: True = may be attended to."""
        dropout = self.dropout if self.training else 0.0
        grouped = self.kv_heads < self.heads
        mixed = F.scaled_dot_product_attention(query, key, value, mask, dropout, enable_gqa=grouped)
        return self.output(mixed.transpose(1, 2).flatten(2))


class SelfAttention(Attention):
    """Tokens attend to tokens of the same text."""

    def __init__(self, config: ChumokuConfig, layer: int) -> None:
        super().__init__(config, layer, config.qk_norm)
        total = (self.heads + 2 * self.kv_heads) * self.head_width
        self.query_key_value = nn.Linear(config.width, total, bias=config.bias)

    def forward(self, x: Tensor, rotation: Tensor | None, mask: Tensor | None, cache: Any = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; keys and values are appended to the cache of `generate`."""
        sizes = self.heads, self.kv_heads, self.kv_heads
        query, key, value = self.split(self.query_key_value(x)).split(sizes, dim=1)
        if self.query_key_norm is not None:
            query, key = self.query_key_norm(query), self.query_key_norm(key)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            key, value = cache.self_attention_cache.update(key, value, self.layer)
        return self.mix(query, key, value, mask)


class CrossAttention(Attention):
    """Target tokens attend to all source tokens, without rotation."""

    def __init__(self, config: ChumokuConfig, layer: int) -> None:
        super().__init__(config, layer, config.cross_qk_norm)
        self.query = nn.Linear(config.width, config.width, bias=config.bias)
        self.key_value = nn.Linear(config.width, 2 * self.kv_heads * self.head_width, bias=config.bias)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None, cache: Any = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; the cache keeps keys and values of memory [B, S, C], the encoder's output."""
        query = self.split(self.query(x))
        if self.query_key_norm is not None:
            query = self.query_key_norm(query)
        if cache is not None and cache.is_updated.get(self.layer):
            cached = cache.cross_attention_cache.layers[self.layer]
            return self.mix(query, cached.keys, cached.values, mask)
        key, value = self.split(self.key_value(memory)).chunk(2, dim=1)
        if self.query_key_norm is not None:
            key = self.query_key_norm(key)
        if cache is not None:
            key, value = cache.cross_attention_cache.update(key, value, self.layer)
            cache.is_updated[self.layer] = True
        return self.mix(query, key, value, mask)


class FeedForward(nn.Module):
    """The MLP of a block."""

    def __init__(self, config: ChumokuConfig) -> None:
        super().__init__()
        self.activation = config.activation
        gates = 2 if config.activation == "swiglu" else 1
        self.expand = nn.Linear(config.width, gates * config.feed_forward, bias=config.bias)
        self.project = nn.Linear(config.feed_forward, config.width, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [..., C] to [..., C]."""
        x = self.expand(x)
        if self.activation == "relu2":
            x = F.relu(x).square()
        elif self.activation == "gelu":
            x = F.gelu(x)
        else:
            gate, value = x.chunk(2, dim=-1)
            x = F.silu(gate) * value
        return self.project(x)


def make_norm(config: ChumokuConfig) -> nn.Module:
    """Create a norm over the width."""
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=1e-6)
    return nn.LayerNorm(config.width, bias=config.bias)


class Block(nn.Module):
    """Self-attention, cross-attention (in the decoder) and MLP, each behind a norm."""

    def __init__(self, config: ChumokuConfig, layer: int, cross: bool) -> None:
        super().__init__()
        self.attention_norm, self.attention = make_norm(config), SelfAttention(config, layer)
        self.cross_norm = make_norm(config) if cross else None
        self.cross_attention = CrossAttention(config, layer) if cross else None
        self.feed_forward_norm, self.feed_forward = make_norm(config), FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        rotation: Tensor | None,
        mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; masks bool, True = may be attended to."""
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, mask, cache))
        if self.cross_norm is not None and self.cross_attention is not None:
            x = x + self.dropout(self.cross_attention(self.cross_norm(x), memory, memory_mask, cache))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Embedding(nn.Module):
    """Token embeddings, plus positions unless they are rotary."""

    def __init__(self, config: ChumokuConfig, rows: int) -> None:
        super().__init__()
        self.position, self.width = config.position, config.width
        self.tokens = nn.Embedding(rows, config.width)
        self.positions = nn.Embedding(config.context, config.width) if config.position == "learned" else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Embed tokens [B, T], the first of which is at position `start`; returns [B, T, C]."""
        x, length = self.tokens(tokens), tokens.shape[1]
        if self.positions is not None:
            x = x + self.positions.weight[start : start + length]
        elif self.position == "sinusoidal":
            angle = angles(start, length, self.width, x.device)
            x = x * self.width**0.5 + torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2).to(x.dtype)
        return self.dropout(x)


class Stack(nn.Module):
    """What encoder and decoder share: embedding, blocks, final norm."""

    def __init__(self, config: ChumokuConfig, rows: int, layers: int, cross: bool) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, rows)
        self.blocks = nn.ModuleList([Block(config, layer, cross) for layer in range(layers)])
        self.norm = make_norm(config)

    def rotation(self, x: Tensor, start: int) -> Tensor | None:
        """Return the angles of the rotary positions of x [B, T, C]."""
        config = self.config
        if config.position != "rotary":
            return None
        return angles(start, x.shape[1], config.width // config.heads, x.device)


class Encoder(Stack):
    """Encodes the source."""

    main_input_name = "input_ids"

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        """Map input_ids [B, S] to [B, S, C]; attention_mask [B, S], 1 = real token."""
        x = self.embedding(input_ids)
        rotation, mask = self.rotation(x, 0), key_mask(attention_mask)
        for block in self.blocks:
            x = block(x, rotation, mask)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class Decoder(Stack):
    """Decodes the target, given the encoded source."""

    def forward(self, tokens: Tensor, memory: Tensor, attention_mask: Tensor | None, cache: Any = None) -> Tensor:
        """Map tokens [B, T] and memory [B, S, C] to [B, T, C]; attention_mask [B, S] of the source."""
        start, length = 0 if cache is None else int(cache.get_seq_length()), tokens.shape[1]
        x = self.embedding(tokens, start)
        visible = None
        if length > 1:
            visible = torch.ones(length, start + length, dtype=torch.bool, device=x.device).tril(start)
        rotation, mask = self.rotation(x, start), key_mask(attention_mask)
        for block in self.blocks:
            x = block(x, rotation, visible, memory, mask, cache)
        return self.norm(x)


def key_mask(attention_mask: Tensor | None) -> Tensor | None:
    """Convert a mask of keys [B, S] to [B, 1, 1, S] bool."""
    return None if attention_mask is None else attention_mask.bool()[:, None, None]


class LongestTarget(StoppingCriteria):
    """Ends a translation at three times the length of its source plus 10 tokens, as Chumoku does."""

    def __init__(self, lengths: Tensor) -> None:
        """lengths [B]: tokens of each source."""
        self._limits = 3 * lengths + 10

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Return which of the targets [B * N, T], with the first token, are as long as they may be, [B * N] bool."""
        limits = self._limits.to(input_ids.device).repeat_interleave(len(input_ids) // len(self._limits))
        return limits <= input_ids.shape[1] - 1


class ChumokuForSeq2SeqLM(PreTrainedModel, GenerationMixin):
    """The translator. Sources end with eos, targets begin with bos (`decoder_start_token_id`)."""

    config_class = ChumokuConfig
    _supports_sdpa = True

    def __init__(self, config: ChumokuConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config, config.source_vocab_size, config.encoder_layers, cross=False)
        self.decoder = Decoder(config, config.vocab_size, config.layers, cross=True)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        target = "decoder.embedding.tokens.weight"
        tied = {"encoder.embedding.tokens.weight": config.share_embeddings, "head.weight": config.tie_embeddings}
        self._tied_weights_keys = {name: target for name, holds in tied.items() if holds}
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        cache: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> Seq2SeqLMOutput:
        """Return logits [B, T, V] of the token after each of decoder_input_ids [B, T].

        input_ids [B, S] and attention_mask [B, S] as from the tokenizer. labels [B, T], -100 where they are ignored:
        also compute the loss; decoder_input_ids are then derived from them. Padding at the end of a target needs no
        mask. cache, or past_key_values (see `CACHE`): decoder_input_ids are the tokens after those in it; with
        use_cache it is created and returned.
        """
        cache = past_key_values if cache is None else cache
        if cache is None and use_cache:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if decoder_input_ids is None and labels is not None:
            tokens = labels.masked_fill(labels == -100, self.config.pad_token_id)
            decoder_input_ids = F.pad(tokens[:, :-1], (1, 0), value=self.config.decoder_start_token_id)
        logits = self.head(self.decoder(decoder_input_ids, encoder_outputs[0], attention_mask, cache))
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Seq2SeqLMOutput(loss=loss, logits=logits, encoder_last_hidden_state=encoder_outputs[0], **{CACHE: cache})

    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As `generate` of transformers; unless the caller limits the length, each translation is also limited to
        three times the length of its source plus 10 tokens."""
        sources = kwargs.get("input_ids", inputs)
        if sources is not None and not {"max_length", "max_new_tokens", "generation_config"} & kwargs.keys():
            mask = kwargs.get("attention_mask")
            mask = sources != self.config.pad_token_id if mask is None else mask
            kwargs["stopping_criteria"] = [*(kwargs.get("stopping_criteria") or ()), LongestTarget(mask.sum(1))]
        return super().generate(inputs, *args, **kwargs)

    def get_input_embeddings(self) -> nn.Module:
        """Return the embedding of the source."""
        return self.encoder.embedding.tokens

    def get_output_embeddings(self) -> nn.Module:
        """Return the output projection."""
        return self.head
