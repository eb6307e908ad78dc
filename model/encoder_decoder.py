"""An encoder-decoder: encodes the source sentence, then decodes the target token by token (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from torch import Tensor, nn

from model.block_variants import block_class
from model.blocks import CrossDecoderBlock, EncoderBlock
from model.cache import BeamCache, KVCache
from model.config import ModelConfig, check
from model.embedding import Embedding, LanguageModel, make_rotary
from model.initialisation import initialise
from model.layers import make_final_norm


class EncoderDecoder(LanguageModel):
    """An encoder and a decoder stack, joined by cross-attention in every decoder block."""

    def __init__(self, config: ModelConfig, source_vocab: int, target_vocab: int, *, shared: bool = False) -> None:
        """shared: both sides use one vocabulary, and with `config.share_embeddings` also one embedding table.

        Raises ValueError naming every invalid key of the configuration.
        """
        super().__init__()
        check(config)
        if shared and source_vocab != target_vocab:
            raise ValueError(f"a shared vocabulary has one size, not {source_vocab} and {target_vocab}")
        self.config = config
        self.source_vocab = source_vocab
        self.vocab_size = target_vocab
        self.target_embedding = Embedding(config, target_vocab)
        table = self.target_embedding.tokens if shared and config.share_embeddings else None
        self.source_embedding = Embedding(config, source_vocab, table)
        self.rotary = make_rotary(config)
        encoder_block, decoder_block = block_class(EncoderBlock, config), block_class(CrossDecoderBlock, config)
        self.encoder = nn.ModuleList([encoder_block(config, layer) for layer in range(config.encoder_depth)])
        self.encoder_norm = make_final_norm(config)
        self.decoder = nn.ModuleList([decoder_block(config, layer) for layer in range(config.layers)])
        self.decoder_norm = make_final_norm(config)
        self.add_output_projection(self.target_embedding)
        initialise(self)

    def forward(
        self, source: Tensor, target: Tensor, source_mask: Tensor | None = None, cache: KVCache | None = None
    ) -> Tensor:
        """Return logits [B, T, V] of the token after each token of `target`; arguments as in `features`."""
        return self.logits(self.features(source, target, source_mask, cache))

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Encode source [B, S] int64 to vectors [B, S, C]; source_mask [B, S] bool, True = real token, None if all are.

        Each row needs at least one real token. Vectors at padding positions are meaningless.
        """
        x = self.source_embedding(source)  # [B, S, C]
        rotation = None if self.rotary is None else self.rotary(0, source.shape[1])
        for block in self.encoder:
            x = block(x, rotation, source_mask)
        return self.encoder_norm(x)

    def cache_source(self, source: Tensor, source_mask: Tensor | None, cache: KVCache) -> None:
        """Encode the source once and cache the cross-attention keys and values of every layer."""
        cache.source_keys_values = self._source_keys_values(self.encode(source, source_mask))
        cache.source_mask = source_mask

    def features(
        self, source: Tensor, target: Tensor, source_mask: Tensor | None = None, cache: KVCache | None = None
    ) -> Tensor:
        """Map source [B, S] and target [B, T] int64 to the output projection's input, [B, T, C] after the final norm.

        target begins with bos; padding at its end needs no mask, because no earlier token attends to it. With a cache
        (under no_grad), `target` holds the tokens after those in the cache; only the first call encodes the source.
        """
        if cache is None:
            return self._decode(target, self._source_keys_values(self.encode(source, source_mask)), source_mask, None)
        if not cache.source_keys_values:
            self.cache_source(source, source_mask, cache)
        return self._decode(target, cache.source_keys_values, cache.source_mask, cache)

    def next_features(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """Return `features` [B, T, C] of the new tokens [B, T], given a cache that already holds the source.

        In a `BeamCache` the T tokens are the hypotheses of each source; each attends to its own ancestors only.
        """
        return self._decode(tokens, cache.source_keys_values, cache.source_mask, cache)

    def next_logits(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """Return logits [B, T, V] after each of the new tokens [B, T]; arguments as in `next_features`."""
        return self.logits(self.next_features(tokens, cache))

    def new_beam_cache(self, steps: int, beam_size: int) -> BeamCache:
        """Create an empty cache for `beam_size` hypotheses per source, `steps` tokens each."""
        return BeamCache(steps, beam_size)

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """Create an empty cache for `capacity` target tokens per row, by default the whole context."""
        return KVCache(self.config.context if capacity is None else capacity)

    def _source_keys_values(self, encoded: Tensor) -> list[tuple[Tensor, Tensor]]:
        blocks = cast(Iterable[CrossDecoderBlock], self.decoder)
        return [block.cross_attention.keys_values(encoded) for block in blocks]

    def _decode(
        self, target: Tensor, source: list[tuple[Tensor, Tensor]], source_mask: Tensor | None, cache: KVCache | None
    ) -> Tensor:
        start, length = (0, target.shape[1]) if cache is None else cache.positions(target.shape[1])
        x = self.target_embedding(target, start, length)  # [B, T, C]
        rotation = None if self.rotary is None else self.rotary(start, length)
        for block, keys_values in zip(self.decoder, source, strict=True):
            x = block(x, keys_values, source_mask, rotation, cache)
        if cache is not None:
            cache.advance(target.shape[1])
        return self.decoder_norm(x)
