"""A decoder-only language model: predicts each token from the preceding tokens (Radford et al. 2019)."""

from __future__ import annotations

from torch import Tensor, nn

from model.blocks import DecoderBlock
from model.cache import KVCache
from model.config import ModelConfig, check
from model.embedding import Embedding, make_rotary
from model.initialisation import initialise
from model.layers import capped, make_final_norm
from model.masks import document_mask
from model.token_shift import TokenShift


class GPT(nn.Module):
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
        rows = config.padded_vocab(vocab_size)
        self.embedding = Embedding(config, rows)
        self.token_shift = TokenShift(config.width) if config.token_shift else None
        self.rotary = make_rotary(config)
        self.blocks = nn.ModuleList([DecoderBlock(config, layer) for layer in range(config.layers)])
        self.norm = make_final_norm(config)
        self.head = nn.Linear(config.width, rows, bias=config.output_bias)
        if config.tie_embeddings:
            self.head.weight = self.embedding.tokens.weight
        initialise(self, self.head, config)

    @property
    def output_weight(self) -> Tensor:
        """Return the output projection [V, C] without the padding rows of the vocabulary: for a fused loss."""
        return self.head.weight[: self.vocab_size]

    @property
    def output_bias(self) -> Tensor | None:
        """Return the bias [V] of the output projection, without the padding rows; None if it has none."""
        return None if self.head.bias is None else self.head.bias[: self.vocab_size]

    def features(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Map tokens [B, T] int64 to the input of the output projection, [B, T, C], after the final norm.

        With a cache (under no_grad), `tokens` are the tokens after those in the cache, and are appended to it. Learned
        positions raise ValueError beyond `config.context`; rotary and sinusoidal positions can be computed for any
        length, but the model was trained only on lengths up to the context.

        With `config.mask_documents` a row may hold several documents; the tokens in a cache belong to one document.
        """
        start, length = (0, tokens.shape[1]) if cache is None else cache.positions(tokens.shape[1])
        x = self.embedding(tokens, start, length)  # [B, T, C]
        if self.token_shift is not None:
            x = self.token_shift(x, tokens == self.eos_id if self.config.mask_documents else None, cache)
        rotation = None if self.rotary is None else self.rotary(start, length)
        documents = self._documents(tokens) if cache is None else None
        for block in self.blocks:
            x = block(x, rotation, cache, documents)
        if cache is not None:
            cache.advance(tokens.shape[1])
        return self.norm(x)

    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Map tokens [B, T] int64 to logits [B, T, V] of the token after each; arguments as in `features`."""
        return self.logits(self.features(tokens, cache))

    def logits(self, features: Tensor) -> Tensor:
        """Project features [..., C] to logits [..., V], without the padding rows of the vocabulary."""
        return capped(self.head(features)[..., : self.vocab_size], self.config.logit_cap)

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """Create an empty cache for `capacity` tokens per row, by default the whole context."""
        return KVCache(self.config.context if capacity is None else capacity)

    def _documents(self, tokens: Tensor) -> Tensor | None:
        """Return the document mask of tokens [B, T] for all layers; None if every token sees all tokens before it."""
        if not self.config.mask_documents or self.eos_id is None:
            return None
        return document_mask(tokens, self.eos_id)
