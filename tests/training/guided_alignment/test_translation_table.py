"""IBM Model 1 and the alignments that it gives to a batch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from data.batches.pairs import Pairs
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_rows import token_rows_of
from training.guided_alignment import translation_table
from training.guided_alignment.translation_table import TranslationTable, learn_translations

END = 3
IDS = SentencePieceTokenizer, SentencePieceTokenizer
"""The special ids of both sides."""
SENTENCES = [([10, 11], [21, 20]), ([10, 12], [20, 22, 22]), ([11, 12, 13], [23, 21, 22]), ([13], [23])]
"""10 to 13 are translated by 20 to 23, in any order."""
OTHER_IDS: Any = SimpleNamespace(pad_id=39, bos_id=39, eos_id=0)
"""The special ids of a model of Marian."""


def pairs_of(sentences: list[tuple[list[int], list[int]]]) -> Pairs:
    """Return sentence pairs as in training."""
    return Pairs(*(token_rows_of(side, 40) for side in zip(*sentences, strict=True)), *IDS)


def learned(sentences: list[tuple[list[int], list[int]]] = SENTENCES) -> TranslationTable:
    """Return the table of all given pairs."""
    return learn_translations(pairs_of(sentences), np.arange(len(sentences)), 40)


def by_hand(sentences: list[tuple[list[int], list[int]]]) -> dict[tuple[int, int], float]:
    """Return t(target | source) by the algorithm as Brown et al. (1993) and every textbook write it."""
    sentences = [([*source, END], [*target, END]) for source, target in sentences]
    chance = {(s, t): 1.0 for source, target in sentences for s in source for t in target}
    for _ in range(translation_table.ITERATIONS):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in sentences:
            for t in target:
                whole = sum(chance[s, t] for s in source)
                for s in source:
                    counts[s, t] += chance[s, t] / whole
                    totals[s] += chance[s, t] / whole
        chance = {(s, t): counts[s, t] / totals[s] for s, t in chance}
    return chance


def test_the_table_is_that_of_ibm_model_1() -> None:
    """Guards both directions, and the places of the tokens in the flat arrays."""
    table = learned()
    places = [divmod(int(key), 40) for key in table.keys]
    assert places == sorted(places)
    wanted = by_hand(SENTENCES)
    assert dict(zip(places, table.target_given_source.tolist(), strict=True)) == pytest.approx(wanted)
    swapped = by_hand([(target, source) for source, target in SENTENCES])
    wanted = {(s, t): value for (t, s), value in swapped.items()}
    assert dict(zip(places, table.source_given_target.tolist(), strict=True)) == pytest.approx(wanted)


def test_tokens_are_aligned_to_their_translations() -> None:
    """Guards the axes: row t is a target token, column s a source token; and tokens that cannot be aligned."""
    table = learned()
    source = torch.tensor([[10, 12, 11, END], [13, 14, END, 0]])  # 14 is unknown, 0 is padding
    target = torch.tensor([[21, 20, 22, END], [24, 23, END, -100]])
    result = table.alignment(source, target)
    assert result.shape == (2, 4, 4)
    assert result[0].argmax(dim=1).tolist() == [2, 0, 1, 3]
    assert result[0, :3].amax(dim=1).min() > 0.7
    assert result[0, 3].sum() < 0.5  # the end of a sentence explains whatever has no counterpart
    assert result[1, 1].argmax() == 0
    assert not result[1, 0].any()  # an unknown target token
    assert not result[1, 3].any()  # padding of the target
    assert not result[1, :, [1, 3]].any()  # an unknown source token, and padding
    assert result.sum(dim=2).max() <= 1 + 1e-6


def test_padding_is_not_aligned_whatever_the_id_of_eos() -> None:
    """Guards models of Marian, whose eos has the id 0: an ignored target is not an eos, and takes no share from one."""
    pairs = replace(pairs_of(SENTENCES), source_tokenizer=OTHER_IDS, target_tokenizer=OTHER_IDS)
    table = learn_translations(pairs, np.arange(len(SENTENCES)), 40)
    source, target = torch.tensor([[10, 11, 0]]), torch.tensor([[21, 20, 0]])
    padded = table.alignment(source, torch.tensor([[21, 20, 0, -100, -100]]))
    assert not padded[:, 3:].any()
    torch.testing.assert_close(padded[:, :3], table.alignment(source, target))


def test_an_alignment_is_the_product_of_both_directions() -> None:
    """Guards the two normalisations, each over the other axis."""
    table = learned()
    source, target = [10, 11, 12, END], [20, 22, END]
    forward, backward = by_hand(SENTENCES), by_hand([(t, s) for s, t in SENTENCES])
    wanted = [
        [
            forward.get((s, t), 0)
            / sum(forward.get((other, t), 0) for other in source)
            * backward.get((t, s), 0)
            / sum(backward.get((other, s), 0) for other in target)
            for s in source
        ]
        for t in target
    ]
    result = table.alignment(torch.tensor([source]), torch.tensor([target]))[0]
    torch.testing.assert_close(result, torch.tensor(wanted), rtol=1e-4, atol=1e-6)


def test_a_large_corpus_is_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a corpus that needs more memory than there is, and against its beginning alone."""
    sentences = [([10 + number], [20 + number]) for number in range(10)]
    monkeypatch.setattr(translation_table, "MOST", 20)  # each pair has 4 combinations
    table = learned(sentences)
    assert {int(key) // 40 for key in table.keys} == {10, 12, 14, 16, 18, END}


def test_only_the_given_rows_are_learned() -> None:
    """Guards against pairs that are too long for training."""
    table = learn_translations(pairs_of(SENTENCES), np.array([1, 3]), 40)
    assert {int(key) // 40 for key in table.keys} == {10, 12, 13, END}
