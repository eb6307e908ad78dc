"""Subword regularisation."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from data.config import TokenizerConfig
from data.tokens.subword_sampling import SegmentationSampler
from data.tokens.token_rows import TokenRows
from data.tokens.tokenizer import Tokenizer
from tests.data.conftest import made_pairs, made_text

TEXTS = ["Line 7: the  wet fox\nmet 433 hens. ", "猫3がとても座った。", "", " ", *made_text(60).splitlines()]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Return a unigram tokenizer of both languages."""
    texts = [made_text(), *(ja for _, ja in made_pairs(60))]
    return Tokenizer.train(texts, TokenizerConfig(kind="unigram", vocab_size=300, byte_fallback=False))


def ids_of(rows: TokenRows) -> list[list[int]]:
    return [rows.tokens[start:end].tolist() for start, end in zip(rows.offsets, rows.offsets[1:], strict=False)]


def digest_of_a_draw(tokenizer: Tokenizer) -> str:
    """Return a draw as text, for comparison with another process."""
    return str(ids_of(SegmentationSampler(tokenizer, TEXTS, 0.2).draw((7, 1, 0), 1000)))


def test_a_draw_is_the_same_in_every_process(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Guards exact resume: SentencePiece's own sampler is seeded differently in every process."""
    tokenizer.save(tmp_path / "tokenizer.model")
    program = (
        "import sys; from data.tokens.tokenizer import Tokenizer; from tests.data.tokens.test_subword_sampling import"
        " digest_of_a_draw\nsys.stdout.buffer.write(digest_of_a_draw(Tokenizer.load(sys.argv[1])).encode())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "tokenizer.model")]
    elsewhere = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, check=True).stdout
    assert digest_of_a_draw(tokenizer) == elsewhere.decode()


def test_draws_spell_the_text_and_differ_by_seed_and_epoch(tokenizer: Tokenizer) -> None:
    """Guards the text itself: every segmentation decodes to the same sentence."""
    sampler = SegmentationSampler(tokenizer, TEXTS, 0.1)
    draws = [ids_of(sampler.draw(seed, 1000)) for seed in ((1, 0, 0), (1, 1, 0), (2, 0, 0))]
    for draw in draws:
        assert [tokenizer.decode(ids) for ids in draw] == TEXTS
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert ids_of(sampler.draw((1, 0, 0), 1000)) == draws[0]


def test_a_large_alpha_gives_the_usual_segmentation_and_so_do_long_texts(tokenizer: Tokenizer) -> None:
    """Guards two limits: a very large alpha gives the best segmentation, and so does a text that would exceed the
    context."""
    usual = tokenizer.encode_batch(TEXTS)
    assert ids_of(SegmentationSampler(tokenizer, TEXTS, 1000.0).draw((1,), 1000)) == usual
    wild = SegmentationSampler(tokenizer, TEXTS, 0.01)
    assert ids_of(wild.draw((1,), 0)) == usual
    limit = 30
    limited = ids_of(wild.draw((1,), limit))
    assert all(len(ids) <= limit or ids == best for ids, best in zip(limited, usual, strict=True))
    assert limited != usual


def test_candidates_are_drawn_with_their_probabilities(tokenizer: Tokenizer) -> None:
    """Guards the formula: frequencies follow P(x)^alpha, normalised over the candidates of the word."""
    word, alpha, draws = "猫がとてもとても座った。", 0.3, 20_000
    best = tokenizer.best_segmentations([word], 32)[0]
    weights = np.exp(alpha * np.array([score for _, score in best]))
    drawn = ids_of(SegmentationSampler(tokenizer, [word] * draws, alpha).draw((5,), 1000))
    counts = Counter(map(tuple, drawn))
    expected = {tuple(ids): weight for (ids, _), weight in zip(best, weights / weights.sum(), strict=True)}
    assert len(expected) >= 3
    for ids, share in expected.items():
        assert counts[ids] / draws == pytest.approx(share, abs=5 * (share / draws) ** 0.5 + 1e-3)
