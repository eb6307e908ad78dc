"""BPE-dropout."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from data.config import TokenizerConfig
from data.tokens.bpe_dropout import BPEDropout
from data.tokens.tokenizer import Tokenizer
from tests.data.conftest import made_pairs, made_text
from tests.data.tokens.test_subword_sampling import ids_of

TEXTS = [
    "Line 7: the  wet fox\nmet 433 hens. ",
    "猫3がとても座った。",
    "",
    " ",
    "fox ❦❦ fox❦",
    *made_text(60).splitlines(),
]


@pytest.fixture(scope="module", params=[False, True], ids=["unknown characters", "byte fallback"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Return a BPE tokenizer of both languages."""
    texts = [made_text(), *(ja for _, ja in made_pairs(60))]
    return Tokenizer.train(texts, TokenizerConfig(kind="bpe", vocab_size=500, byte_fallback=request.param))


def digest_of_a_draw(tokenizer: Tokenizer) -> str:
    """Return a draw as text, for comparison with another process."""
    return str(ids_of(BPEDropout(tokenizer, TEXTS, 0.2).draw((7, 1, 0), 1000)))


def test_without_dropout_it_is_the_usual_segmentation(tokenizer: Tokenizer) -> None:
    """Guards the order of merges: SentencePiece and we must agree on every text, unknown characters included."""
    assert ids_of(BPEDropout(tokenizer, TEXTS, 0.0).draw((1,), 1000)) == tokenizer.encode_batch(TEXTS)


def test_draws_spell_the_text_and_differ_by_seed_and_epoch(tokenizer: Tokenizer) -> None:
    """Guards the text itself: every segmentation decodes to the same sentence."""
    sampler = BPEDropout(tokenizer, TEXTS, 0.1)
    draws = [ids_of(sampler.draw(seed, 1000)) for seed in ((1, 0, 0), (1, 1, 0), (2, 0, 0))]
    for draw in draws:
        assert [tokenizer.decode(ids) for ids in draw] == [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS]
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert ids_of(sampler.draw((1, 0, 0), 1000)) == draws[0]


def test_a_long_text_gets_its_usual_segmentation(tokenizer: Tokenizer) -> None:
    """Guards the context: no text becomes longer than the model's context, and none is cut."""
    usual = tokenizer.encode_batch(TEXTS)
    sampler = BPEDropout(tokenizer, TEXTS, 0.9)
    assert ids_of(sampler.draw((1,), 0)) == usual
    limit = 30
    limited = ids_of(sampler.draw((1,), limit))
    assert all(len(ids) <= limit or ids == best for ids, best in zip(limited, usual, strict=True))
    assert limited != usual


def test_merges_are_dropped_with_the_probability(tokenizer: Tokenizer) -> None:
    """Guards the formula on the word "fo", of a single possible merge, which a draw keeps with probability 1 - p."""
    draws = 10_000
    usual = tokenizer.encode("fo")
    assert len(usual) == 1
    drawn = ids_of(BPEDropout(tokenizer, ["fo"] * draws, 0.3).draw((5,), 1000))
    assert Counter(map(len, drawn))[1] / draws == pytest.approx(0.7, abs=0.02)


def test_a_draw_is_the_same_in_every_process(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Guards exact resume: SentencePiece's own sampler is seeded differently in every process."""
    tokenizer.save(tmp_path / "tokenizer.model")
    program = (
        "import sys; from data.tokens.tokenizer import Tokenizer; from tests.data.tokens.test_bpe_dropout import"
        " digest_of_a_draw\nsys.stdout.buffer.write(digest_of_a_draw(Tokenizer.load(sys.argv[1])).encode())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "tokenizer.model")]
    elsewhere = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, check=True).stdout
    assert digest_of_a_draw(tokenizer) == elsewhere.decode()
