"""BPE-dropout (Provilkov et al. 2020): a new segmentation of every sentence in every epoch, for BPE models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_rows import Ints, TokenRows, gathered, token_rows_of

_NONE = np.iinfo(np.int64).max


class BPEDropout:
    """Merges the characters of each word as BPE does, but at every step each possible merge is dropped with a given
    probability; a word is finished when no merge is left (Provilkov et al. 2020, algorithm 1).

    SentencePiece has the same, but seeds it differently in every process, so that a resumed run would get other
    segmentations. Here one step of all words at once takes a few array operations.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, texts: Sequence[str], probability: float) -> None:
        self._probability = probability
        self._unknown = tokenizer.unk_id
        self._pairs, self._merged, self._ranks = _merges(tokenizer)
        self._vocabulary = tokenizer.vocab_size
        self._usual = token_rows_of(tokenizer.encode_batch(texts), tokenizer.vocab_size)
        words, counts = tokenizer.character_ids(texts)
        self._characters: Ints = np.fromiter(chain.from_iterable(words), dtype=np.int64)
        # The word of each character, and the text of each word.
        self._words: Ints = np.repeat(np.arange(len(words)), [len(word) for word in words])
        self._texts: Ints = np.repeat(np.arange(len(texts)), counts)

    def draw(self, seed: Sequence[int], longest: int) -> TokenRows:
        """Sample a segmentation of every text; a text longer than `longest` tokens gets its usual segmentation."""
        random = np.random.default_rng(list(seed))
        ids, words = self._characters, self._words
        finished: list[tuple[Ints, Ints]] = []
        while len(ids):
            ids, words, done = self._merged_once(ids, words, random)
            finished.append((ids[done], words[done]))
            ids, words = ids[~done], words[~done]
        words = np.concatenate([words for _, words in finished]) if finished else words
        order = np.argsort(words, kind="stable")
        ids = np.concatenate([ids for ids, _ in finished])[order] if finished else ids
        return self._rows(ids, self._texts[words[order]], longest)

    def _merged_once(
        self, ids: Ints, words: Ints, random: np.random.Generator
    ) -> tuple[Ints, Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Apply the best remaining merge of each word -> tokens, their words, and whether their word is finished."""
        count = len(ids)
        pairs = ids[:-1] * self._vocabulary + ids[1:]
        place = np.searchsorted(self._pairs, pairs)
        possible = (self._pairs[place] == pairs) & (words[:-1] == words[1:])
        possible &= random.random(count - 1) >= self._probability
        # Of equal merges the leftmost comes first, as in SentencePiece.
        priority = np.full(count, _NONE)
        chosen = np.flatnonzero(possible)
        priority[chosen] = self._ranks[place[chosen]] * count + chosen
        starts = np.flatnonzero(np.diff(words, prepend=-1))
        best = np.minimum.reduceat(priority, starts)
        left = best[best != _NONE] % count
        ids = ids.copy()
        ids[left] = self._merged[place[left]]
        remaining = np.ones(count, dtype=bool)
        remaining[left + 1] = False
        done = np.repeat(best == _NONE, np.diff(starts, append=count))
        return ids[remaining], words[remaining], done[remaining]

    def _rows(self, ids: Ints, texts: Ints, longest: int) -> TokenRows:
        """Return the rows of all texts, which `texts` assigns to the tokens."""
        repeated = (ids[1:] == self._unknown) & (ids[:-1] == self._unknown) & (texts[1:] == texts[:-1])
        retained = np.append(True, ~repeated)[
            : len(ids)
        ]  # SentencePiece writes one <unk> for a row of unknown characters
        ids, usual = ids[retained], self._usual
        drawn = np.bincount(texts[retained], minlength=len(usual.lengths))
        over = drawn > longest
        starts = np.where(over, len(ids) + usual.offsets[:-1], np.cumsum(drawn) - drawn)
        tokens = np.concatenate([ids.astype(usual.tokens.dtype), usual.tokens])
        return gathered(tokens, starts, np.where(over, usual.lengths, drawn), np.arange(len(drawn) + 1))


def _merges(tokenizer: SentencePieceTokenizer) -> tuple[Ints, Ints, Ints]:
    """Return all pairs of tokens whose concatenation is a token, as left * V + right in ascending order; the token that
    they make; and its rank, by which merges are applied in ascending order."""
    names = tokenizer.text_pieces()  # best first
    ranks = {name: rank for rank, name in enumerate(names)}
    merges = [
        (names[name[:cut]] * tokenizer.vocab_size + names[name[cut:]], token, ranks[name])
        for name, token in names.items()
        for cut in range(1, len(name))
        if name[:cut] in names and name[cut:] in names
    ]
    beyond = tokenizer.vocab_size**2, 0, 0  # no pair: every search ends at or before it
    pairs, merged, rank = np.array([*sorted(merges), beyond], dtype=np.int64).T
    return pairs, merged, rank
