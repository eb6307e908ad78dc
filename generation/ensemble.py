"""Ensembles: several models with one vocabulary, whose probabilities of the next token are averaged at each step.

An ensemble has the interface of one model, so that loss, sampling and beam search need not know about it. It has no
attention maps, and on a GPU its steps are not recorded as CUDA graphs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from model.cache import BeamCache, KVCache
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


class Ensemble(nn.Module):
    """What both ensembles share: the members, and the average of their probabilities."""

    members: nn.ModuleList

    def join(self, members: Sequence[GPT] | Sequence[EncoderDecoder]) -> None:
        """Take the members, which must have the same vocabulary; the shortest context becomes that of the ensemble."""
        nn.Module.__init__(self)
        self.members = nn.ModuleList(members)
        shortest = min(member.config.context for member in members)
        self.config = replace(members[0].config, context=shortest)
        self.vocab_size = members[0].vocab_size
        self.widths = [member.config.width for member in members]

    def logits(self, features: Tensor) -> Tensor:
        """Map the members' features, side by side [..., ΣC], to log-probabilities [..., V]."""
        parts = features.split(self.widths, dim=-1)
        models = cast(Iterable[GPT | EncoderDecoder], self.members)
        return mean_probability([member.logits(part) for member, part in zip(models, parts, strict=True)])


def mean_probability(logits: Sequence[Tensor]) -> Tensor:
    """Return the logarithm [..., V] of the mean of the probabilities that these logits [..., V] stand for."""
    log_probabilities = torch.stack([part.float().log_softmax(dim=-1) for part in logits])
    return log_probabilities.logsumexp(dim=0) - math.log(len(logits))


class GPTEnsemble(Ensemble, GPT):
    """Several language models."""

    def __init__(self, members: Sequence[GPT]) -> None:
        self.join(members)
        self.eos_id = members[0].eos_id

    @property
    def models(self) -> list[GPT]:
        """Return the members."""
        return cast(list[GPT], list(self.members))

    def features(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return the features of all members, side by side [B, T, ΣC]."""
        caches = [None] * len(self.models) if cache is None else parts_of(cache)
        members = zip(self.models, caches, strict=True)
        return torch.cat([member.features(tokens, part) for member, part in members], dim=-1)

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """Create an empty cache for each member."""
        return Caches([member.new_cache(capacity or self.config.context) for member in self.models])


class TranslatorEnsemble(Ensemble, EncoderDecoder):
    """Several encoder-decoders."""

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        self.join(members)
        self.source_vocab = members[0].source_vocab

    @property
    def models(self) -> list[EncoderDecoder]:
        """Return the members."""
        return cast(list[EncoderDecoder], list(self.members))

    def features(
        self, source: Tensor, target: Tensor, source_mask: Tensor | None = None, cache: KVCache | None = None
    ) -> Tensor:
        """Return the features of all members, side by side [B, T, ΣC]."""
        caches = [None] * len(self.models) if cache is None else parts_of(cache)
        members = zip(self.models, caches, strict=True)
        return torch.cat([member.features(source, target, source_mask, part) for member, part in members], dim=-1)

    def cache_source(self, source: Tensor, source_mask: Tensor | None, cache: KVCache) -> None:
        """Encode the source with each member."""
        for member, part in zip(self.models, parts_of(cache), strict=True):
            member.cache_source(source, source_mask, part)

    def next_features(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """Return the features of all members for the new tokens [B, T], side by side [B, T, ΣC]."""
        members = zip(self.models, parts_of(cache), strict=True)
        return torch.cat([member.next_features(tokens, part) for member, part in members], dim=-1)

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """Create an empty cache for each member."""
        return Caches([member.new_cache(capacity or self.config.context) for member in self.models])

    def new_beam_cache(self, steps: int, beam_size: int) -> BeamCache:
        """Create an empty cache for each member."""
        return BeamCaches([member.new_beam_cache(steps, beam_size) for member in self.models])


class Caches(KVCache):
    """The caches of the members, which change in the same way."""

    def __init__(self, parts: Sequence[KVCache]) -> None:
        super().__init__(parts[0].capacity)
        self.parts: list[KVCache] = list(parts)

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """Keep the first tokens of each row, as in KVCache."""
        for part in self.parts:
            part.set_lengths(lengths)

    def keep(self, rows: Tensor) -> None:
        """Replace row i by row `rows[i]`, as in KVCache."""
        for part in self.parts:
            part.keep(rows)

    def replace_rows(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite rows with those of the caches of another batch, as in KVCache."""
        for mine, theirs in zip(self.parts, parts_of(other), strict=True):
            mine.replace_rows(rows, theirs)


class BeamCaches(Caches, BeamCache):
    """The caches of a beam search of all members."""

    def __init__(self, parts: Sequence[BeamCache]) -> None:
        BeamCache.__init__(self, 0, 0)
        self.parts = list(parts)

    def follow(self, parents: Tensor) -> None:
        """Reorder the hypotheses, as in BeamCache."""
        for part in self.parts:
            assert isinstance(part, BeamCache)
            part.follow(parents)


def parts_of(cache: KVCache) -> list[KVCache]:
    """Return the cache of each member."""
    assert isinstance(cache, Caches)
    return cache.parts
