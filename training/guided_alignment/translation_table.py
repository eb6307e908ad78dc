"""Learn from sentence pairs which tokens translate each other: IBM Model 1 (Brown et al. 1993)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from data.batches.pairs import Pairs
from data.batches.windows import spread
from data.tokens.token_rows import Ints

ITERATIONS = 6
"""Steps of expectation maximisation in each direction. On 72,706 pairs the likelihood has then nearly converged."""

MOST = 10_000_000
"""Number of token pairs (a source and a target token of one sentence pair) to learn from, which takes 8 s. Of a larger
corpus, evenly spaced sentence pairs are used."""


@dataclass(frozen=True)
class TranslationTable:
    """Translation probabilities of N pairs of tokens, sorted by `keys`."""

    target_vocab: int
    keys: Tensor
    """source id · `target_vocab` + target id, [N] int64."""
    target_given_source: Tensor
    """[N] float32."""
    source_given_target: Tensor
    """[N] float32."""

    def to(self, device: torch.device) -> TranslationTable:
        """Return the table on another device."""
        tensors = (self.keys, self.target_given_source, self.source_given_target)
        return TranslationTable(self.target_vocab, *(tensor.to(device) for tensor in tensors))

    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the probability that a target token is aligned to a source token, [B, T, S] float32.

        source [B, S] and target [B, T] int64; targets may be IGNORED. Only tokens in the table are aligned, padding
        is not. It is the product of the posteriors of both directions (Liang et al. 2006, section 3): near 0 unless
        they agree, so that the sum over the source tells how certain the alignment of a token is.
        """
        wanted = source.unsqueeze(1) * self.target_vocab + target.clamp(min=0).unsqueeze(2)  # [B, T, S]
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        known = (self.keys[place] == wanted) & (target >= 0).unsqueeze(2)
        forward, backward = (
            torch.where(known, posterior[place], 0.0)
            for posterior in (self.target_given_source, self.source_given_target)
        )
        forward = forward / forward.sum(dim=2, keepdim=True).clamp(min=1e-9)
        return forward * backward / backward.sum(dim=1, keepdim=True).clamp(min=1e-9)


def learn_translations(pairs: Pairs, rows: Ints, target_vocab: int) -> TranslationTable:
    """Learn a table from the given rows of sentence pairs. Both sides have an eos at their end, to which a token
    without a counterpart can be aligned."""
    combinations = (pairs.source.lengths[rows] + 1) * (pairs.target.lengths[rows] + 1)
    rows = rows[spread(len(rows), max(1, len(rows) * MOST // int(combinations.sum())))]
    source_lengths, target_lengths = pairs.source.lengths[rows] + 1, pairs.target.lengths[rows] + 1
    sources = _flat(pairs.source.tokens, pairs.source.offsets, rows, pairs.source_tokenizer.eos_id)
    targets = _flat(pairs.target.tokens, pairs.target.offsets, rows, pairs.target_tokenizer.eos_id)
    # Every combination of a source and a target token of a sentence pair, as their places in the flat arrays.
    counts = source_lengths * target_lengths
    within = np.arange(counts.sum(), dtype=np.int32) - _repeated(np.cumsum(counts) - counts, counts)
    width = _repeated(source_lengths, counts)
    source_place = _repeated(np.cumsum(source_lengths) - source_lengths, counts) + within % width
    target_place = _repeated(np.cumsum(target_lengths) - target_lengths, counts) + within // width
    del within, width
    keys, entry = np.unique(sources[source_place] * target_vocab + targets[target_place], return_inverse=True)
    entry = entry.astype(np.int32)
    source_ids, target_ids = np.divmod(keys, target_vocab)
    with tqdm(total=2 * ITERATIONS, desc="word alignment", unit="iteration", disable=None, leave=False) as bar:
        forward = _maximised(entry, source_ids, target_place, bar)
        backward = _maximised(entry, target_ids, source_place, bar)
    probabilities = (torch.from_numpy(probability.astype(np.float32)) for probability in (forward, backward))
    return TranslationTable(target_vocab, torch.from_numpy(keys), *probabilities)


def _flat(tokens: NDArray, offsets: Ints, rows: Ints, end: int) -> Ints:
    """Concatenate the given rows, each with `end` behind it."""
    return np.concatenate([np.append(tokens[offsets[row] : offsets[row + 1]], end) for row in rows]).astype(np.int64)


def _repeated(values: Ints, counts: Ints) -> NDArray[np.int32]:
    return np.repeat(values.astype(np.int32), counts)


def _maximised(
    entry: NDArray[np.int32], condition: Ints, explained: NDArray[np.int32], bar: tqdm
) -> NDArray[np.float64]:
    """Return the probability of each table entry given its token `condition`, [N].

    entry: the table entry of each combination; explained: the place of the token that the combination explains. E-step:
    the combinations that explain one token share a count of 1. M-step: the probability is the share of the counts.
    """
    probability = np.ones(len(condition))
    for _ in range(ITERATIONS):
        share = probability[entry]
        share /= np.bincount(explained, weights=share)[explained]
        counts = np.bincount(entry, weights=share, minlength=len(condition))
        probability = counts / np.bincount(condition, weights=counts)[condition]
        bar.update()
    return probability
