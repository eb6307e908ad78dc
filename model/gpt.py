"""A decoder-only language model: predicts each token from the preceding tokens (Radford et al. 2019)."""

from __future__ import annotations

from torch import Tensor, nn

from model.block_variants import block_class
from model.blocks import DecoderBlock
from model.cache import KVCache
from model.config import ModelConfig, check
from model.embedding import Embedding, LanguageModel, TokenShift, make_rotary
from model.initialisation import initialise
from model.layers import make_final_norm
from model.masks import document_mask


class GPT(LanguageModel):
    """Embedding, `config.layers` causal blocks, a final norm, and a projection to the vocabulary."""

    def __init__(self, config: ModelConfig, vocab_size: int, eos_id: int | None = None) -> None:
        """eos_id: the token that begins each document; needed only for `config.mask_documents`.

        Raises ValueError naming every invalid key of the configuration.
        """
        super().__init__()
        check(config)
        if config.mask_documents and eos_id is None:
            raise ValueError("model.mask_documents needs the id of the token that begins each document (eos_id)")
        self.config = config
        self.vocab_size = vocab_size
        self.eos_id = eos_id
        self.embedding = Embedding(config, vocab_size)
        self.token_shift = TokenShift(config.width) if config.token_shift else None
        self.rotary = make_rotary(config)
        block = block_class(DecoderBlock, config)  # DecoderBlock itself, except for some imported models
        self.blocks = nn.ModuleList([block(config, layer) for layer in range(config.layers)])
        self.norm = make_final_norm(config)
        self.add_output_projection(self.embedding)  # `self.head`: embedding.py
        initialise(self)

    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Map tokens [B, T] int64 to logits [B, T, V] of the token after each; arguments as in `features`."""
        return self.logits(self.features(tokens, cache))  # `logits`: embedding.py

    def features(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Map tokens [B, T] int64 to the input of the output projection, [B, T, C], after the final norm. The training
        loss projects it itself, a chunk of tokens at a time, so that the logits of a batch are never in memory at once.

        With a cache (under no_grad), `tokens` are the tokens after those in the cache, and are appended to it. Learned
        positions raise ValueError beyond `config.context`; rotary and sinusoidal positions can be computed for longer
        texts (of one length), but the model was trained only on lengths up to the context.

        With `config.mask_documents` a row may hold several documents; the tokens in a cache belong to one document.
        """
        # A cache says how many tokens precede these. `length` is T; it differs only in a beam search.
        start, length = (0, tokens.shape[1]) if cache is None else cache.positions(tokens.shape[1])
        x = self.embedding(tokens, start, length)  # [B, T, C]
        # Rotation and mask are the same for all layers: computed here once. A cache holds a single document.
        rotation = None if self.rotary is None else self.rotary(start, length)
        starts = None if self.eos_id is None or not self.config.mask_documents else tokens == self.eos_id
        mask = None if starts is None or cache is not None else document_mask(starts)
        # Off by default: mixes each token with the one before it.
        if self.token_shift is not None:
            x = self.token_shift(x, starts, cache)
        for block in self.blocks:
            x = block(x, rotation, cache, mask)
        if cache is not None:
            cache.advance(tokens.shape[1])  # only now: every layer has written to the same slots
        # Blocks add to x without ever normalising it; the projection needs vectors of one scale.
        return self.norm(x)

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """Create an empty cache for `capacity` tokens per row, by default the whole context."""
        return KVCache(self.config.context if capacity is None else capacity)
