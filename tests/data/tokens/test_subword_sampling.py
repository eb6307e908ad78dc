"""Subword sampling: segmentations of a unigram model (subword regularisation) and of a BPE model (BPE-dropout)."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from data.config import TokenizerConfig
from data.tokens.bpe_dropout import BPEDropout
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.subword_sampling import SegmentationSampler
from data.tokens.token_rows import TokenRows
from data.tokens.tokenizer import Tokenizer
from tests.data.conftest import made_pairs, made_text

KNOWN = ["Line 7: the  wet fox\nmet 433 hens. ", "猫3がとても座った。", "", " ", *made_text(60).splitlines()]
TEXTS = [*KNOWN, "fox ❦❦ fox❦"]


@functools.cache
def trained(kind: str, byte_fallback: bool = False) -> Tokenizer:
    """Return a tokenizer of both languages."""
    texts = [made_text(), *(ja for _, ja in made_pairs(60))]
    size = 300 if kind == "unigram" else 500
    return SentencePieceTokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=size, byte_fallback=byte_fallback))


@dataclass(frozen=True)
class Kind:
    """A tokenizer with its sampler, and settings of the sampler: none, some and much variation."""

    tokenizer: Tokenizer
    sampler: type[BPEDropout] | type[SegmentationSampler]
    none: float
    some: float
    much: float

    def draw(self, setting: float, seed: tuple[int, ...] = (1,), longest: int = 1000) -> list[list[int]]:
        return ids_of(self.sampler(self.tokenizer, TEXTS, setting).draw(seed, longest))


def kind_of(name: str) -> Kind:
    if name == "unigram":
        return Kind(trained("unigram"), SegmentationSampler, none=1000.0, some=0.1, much=0.01)
    return Kind(trained("bpe", name == "bpe with bytes"), BPEDropout, none=0.0, some=0.1, much=0.9)


@pytest.fixture(params=["unigram", "bpe", "bpe with bytes"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of tokenizer; one can write every character."""
    return kind_of(request.param)


def ids_of(rows: TokenRows) -> list[list[int]]:
    return [rows.tokens[start:end].tolist() for start, end in zip(rows.offsets, rows.offsets[1:], strict=False)]


@pytest.mark.parametrize("name", ["unigram", "bpe"])
def test_a_draw_is_the_same_in_every_process(name: str) -> None:
    """Guards exact resume: SentencePiece's own sampler is seeded differently in every process."""
    program = (
        "import sys; from tests.data.tokens.test_subword_sampling import kind_of\n"
        "sys.stdout.write(str(kind_of(sys.argv[1]).draw(0.2, (7, 1, 0))))"
    )
    command = [sys.executable, "-c", program, name]
    elsewhere = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, check=True).stdout
    assert str(kind_of(name).draw(0.2, (7, 1, 0))) == elsewhere.decode()


def test_draws_spell_the_text_and_differ_by_seed_and_epoch(kind: Kind) -> None:
    """Guards the text itself: every segmentation decodes to the same sentence."""
    tokenizer = kind.tokenizer
    draws = [kind.draw(kind.some, seed) for seed in ((1, 0, 0), (1, 1, 0), (2, 0, 0))]
    for draw in draws:
        texts = [tokenizer.decode(ids) for ids in draw]
        assert texts[: len(KNOWN)] == KNOWN
        assert texts == [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS]
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert kind.draw(kind.some, (1, 0, 0)) == draws[0]


def test_without_variation_it_is_the_usual_segmentation(kind: Kind) -> None:
    """Guards the order of merges and of candidates: SentencePiece and we agree, unknown characters included."""
    assert kind.draw(kind.none) == kind.tokenizer.encode_batch(TEXTS)


def test_a_long_text_gets_its_usual_segmentation(kind: Kind) -> None:
    """Guards the context: no text becomes longer than the model's context, and none is cut."""
    usual = kind.tokenizer.encode_batch(TEXTS)
    assert kind.draw(kind.much, longest=0) == usual
    limit = 30
    limited = kind.draw(kind.much, longest=limit)
    assert all(len(ids) <= limit or ids == best for ids, best in zip(limited, usual, strict=True))
    assert limited != usual


def test_merges_are_dropped_with_the_probability() -> None:
    """Guards the formula on the word "fo", of a single possible merge, which a draw keeps with probability 1 - p."""
    tokenizer, draws = trained("bpe"), 10_000
    assert len(tokenizer.encode("fo")) == 1
    drawn = ids_of(BPEDropout(tokenizer, ["fo"] * draws, 0.3).draw((5,), 1000))
    assert Counter(map(len, drawn))[1] / draws == pytest.approx(0.7, abs=0.02)


def test_a_model_without_merges_keeps_its_characters() -> None:
    """Guards the smallest vocabulary, whose table of merges is empty."""
    tokenizer = SentencePieceTokenizer.train(["ab", "ba"], TokenizerConfig(kind="char"))
    assert ids_of(BPEDropout(tokenizer, ["abba"], 0.5).draw((1,), 1000)) == [tokenizer.encode("abba")]


def test_candidates_are_drawn_with_their_probabilities() -> None:
    """Guards the formula: frequencies follow P(x)^alpha, normalised over the candidates of the word."""
    tokenizer = trained("unigram")
    word, alpha, draws = "猫がとてもとても座った。", 0.3, 20_000
    best = tokenizer.best_segmentations([word], 32)[0]
    weights = np.exp(alpha * np.array([score for _, score in best]))
    drawn = ids_of(SegmentationSampler(tokenizer, [word] * draws, alpha).draw((5,), 1000))
    counts = Counter(map(tuple, drawn))
    expected = {tuple(ids): weight for (ids, _), weight in zip(best, weights / weights.sum(), strict=True)}
    assert len(expected) >= 3
    for ids, share in expected.items():
        assert counts[ids] / draws == pytest.approx(share, abs=5 * (share / draws) ** 0.5 + 1e-3)
