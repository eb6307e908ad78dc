"""Subword regularisation (Kudo 2018): a new segmentation of every sentence in every epoch, for unigram models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from tqdm import tqdm

from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_file import token_dtype
from data.tokens.token_rows import Ints, TokenRows, gathered

CANDIDATES = 32
"""Number of best segmentations of a word to sample from. (Without spaces, as in Japanese, a word is a sentence.)"""

_WORD = re.compile("\n| ?[^ \n]+| ")  # no piece spans the boundary before a space or around a newline
_SHARE = 4096  # words segmented together


class SegmentationSampler:
    """Samples segmentations with probability ~ P(x)^alpha among the best of each word; unigram models only.

    SentencePiece's own sampler is seeded differently in every process, so that a resumed run would get other
    segmentations. The constructor finds the candidates once; a draw is one binary search per word.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, texts: Sequence[str], alpha: float) -> None:
        places: dict[str, int] = {}
        words = [[places.setdefault(word, len(places)) for word in _WORD.findall(text)] for text in texts]
        self._words: Ints = np.fromiter(chain.from_iterable(words), dtype=np.int64)  # of all texts, concatenated
        self._offsets: Ints = np.cumsum([0, *map(len, words)], dtype=np.int64)
        distinct = list(places)
        tokens, lengths, scores, counts = [], [], [], []
        shares = range(0, len(distinct), _SHARE)
        for first in tqdm(shares, desc="finding segmentations", disable=None, delay=2, leave=False):
            for best in tokenizer.best_segmentations(distinct[first : first + _SHARE], CANDIDATES):
                tokens.append(
                    np.fromiter(chain.from_iterable(ids for ids, _ in best), token_dtype(tokenizer.vocab_size))
                )
                lengths += [len(ids) for ids, _ in best]
                weights = np.exp(alpha * (np.array([score for _, score in best]) - best[0][1]))
                scores.append(np.cumsum(weights) / weights.sum())
                counts.append(len(best))
        self._tokens = np.concatenate(tokens)
        self._starts: Ints = np.cumsum([0, *lengths], dtype=np.int64)  # start of each candidate in the tokens
        self._first: Ints = np.cumsum([0, *counts], dtype=np.int64)  # first candidate of each word
        # Word number plus cumulative probability: sorted over all words, so one search finds the candidate of any word.
        self._cumulative = np.concatenate(scores) + np.repeat(np.arange(len(counts)), counts)

    def draw(self, seed: Sequence[int], longest: int) -> TokenRows:
        """Sample a segmentation of every text; a text longer than `longest` tokens gets its best segmentation."""
        points = self._words + np.random.default_rng(list(seed)).random(len(self._words))
        chosen = np.minimum(np.searchsorted(self._cumulative, points), self._first[self._words + 1] - 1)
        over = np.repeat(self._row_lengths(chosen) > longest, np.diff(self._offsets))
        chosen[over] = self._first[self._words[over]]
        return gathered(self._tokens, self._starts[chosen], np.diff(self._starts)[chosen], self._offsets)

    def _row_lengths(self, chosen: Ints) -> Ints:
        ends = np.append(0, np.cumsum(np.diff(self._starts)[chosen]))
        return np.diff(ends[self._offsets])
