"""tokenizer.json: the ids and the text of our tokenizers, on hostile and on real texts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers

from configs.errors import UserError
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.huggingface.tokenizer import Proto, convert
from tests.data.conftest import real  # noqa: F401 (a fixture)
from tests.data.tokens.test_tokenizer import SAMPLE, random_texts, trained


def converted(ours: Tokenizer, before: bool = False) -> tokenizers.Tokenizer:
    """Return the converted tokenizer after a round trip through its file, as transformers opens it."""
    theirs = tokenizers.Tokenizer.from_str(convert(ours, before).to_str())
    theirs.encode_special_tokens = True  # `split_special_tokens` of transformers
    return theirs


JAPANESE = ["猫が座った。", "犬も座った。", "猫と犬が好きです。"] * 20

VARIANTS: dict[str, Callable[[], Tokenizer]] = {
    "char": lambda: trained("char", 320),
    "char with bytes": lambda: trained("char", 600, byte_fallback=True),
    "bpe": lambda: trained("bpe", 320),
    "bpe with bytes": lambda: trained("bpe", 350, byte_fallback=True, character_coverage=0.98),
    "unigram": lambda: trained("unigram", 320),
    "unigram with bytes": lambda: trained("unigram", 350, byte_fallback=True, character_coverage=0.98),
    "no spaces": lambda: SentencePieceTokenizer.train(JAPANESE, TokenizerConfig(kind="unigram", vocab_size=17)),
    "no lines": lambda: SentencePieceTokenizer.train(
        ["a cat sat", "the cat"] * 50, TokenizerConfig(kind="bpe", vocab_size=20)
    ),
}
"""Each kind with and without byte fallback; a small vocabulary lacks characters of the texts."""


@pytest.mark.parametrize("name", VARIANTS)
def test_ids_and_text_are_equal_on_hostile_texts(name: str) -> None:
    """Guards the escapes, runs of unknown characters, words that look like special tokens or bytes, and spaces."""
    ours = VARIANTS[name]()
    theirs = converted(ours)
    texts = [
        *SAMPLE,
        *random_texts(1500, seed=5),
        "<0x41> <0xE3><0x8",
        "</s><pad>",
        "\ufdd0pad",
        "\ufdd05",
        " \n \n  x ",
    ]
    for text in texts:
        ids = ours.encode(text)
        assert theirs.encode(text, add_special_tokens=False).ids == ids, (name, text)
        assert theirs.decode(ids) == ours.decode(ids), (name, text)


def test_any_generated_ids_give_the_same_text() -> None:
    """Guards decoding of what is not an encoded text: escapes cut in half, special tokens, spaces from bytes."""
    ours = trained("bpe", 500, byte_fallback=True)
    theirs = converted(ours)
    draw = random.Random(1)
    text_ids = [0, 1, 2, 3, *range(4 + 256, ours.vocab_size)]
    escape = ours.encode("\ufdd0\ufdd3\t")
    for _ in range(2000):
        ids = [draw.choice(text_ids) for _ in range(draw.randrange(8))]
        assert theirs.decode(ids) == ours.decode(ids)
    for ids in ([*escape[:-1], 7 + 256], [1], [3, 1, 1], [4 + 0xE2, 4 + 0x96, 4 + 0x81]):
        assert theirs.decode(ids) == ours.decode(ids)


def test_eos_stands_before_a_prompt_and_after_a_source() -> None:
    """Guards the conventions of `generate.py`: a document begins with eos, a source ends with it."""
    ours = trained("bpe", 320)
    ids = ours.encode("the fox")
    assert converted(ours, before=True).encode("the fox").ids == [3, *ids]
    assert converted(ours, before=False).encode("the fox").ids == [*ids, 3]


def test_special_tokens_have_their_usual_names_where_no_text_is_called_so() -> None:
    """Guards `tokenizer.eos_token`, and a vocabulary in which the word <unk> is a piece, as WikiText's could be."""
    ours = trained("bpe", 320)
    assert converted(ours).id_to_token(3) == "</s>"
    model = Proto.FromString(ours.model)
    model.pieces[-1].piece = "<unk>"
    assert converted(SentencePieceTokenizer(model.SerializeToString())).id_to_token(1) == "\ufdd0unk"


def test_nfkc_is_refused_by_name() -> None:
    """Guards against normalisation that differs in half-width katakana and combining marks."""
    ours = trained("bpe", 320, normalization="nfkc")
    with pytest.raises(UserError, match=r"tokenizer.normalization=nfkc: .*tokenizer.normalization=identity"):
        convert(ours, before=False)


@pytest.mark.parametrize(("kind", "size"), [("bpe", 4000), ("unigram", 4000), ("char", None)])
def test_ids_are_equal_on_real_lines(real: Callable[[str], str], kind: str, size: int | None) -> None:  # noqa: F811
    """Guards equality on 10,000 lines of English and as many of Japanese.

    Unigram: SentencePiece adds scores in float32, so that of two segmentations into the same pieces, such as 00 0 and
    0 00, either may win, depending on the text before them. Such ties are rare, and nothing else may differ.
    """
    lines = (Path(real("tatoeba_enja")) / "train.tsv").read_text("utf-8").splitlines()
    english, japanese = zip(*(line.split("\t")[:2] for line in lines), strict=True)
    sample = [*english[:5000], *japanese[:5000]]
    ours = SentencePieceTokenizer.train(
        sample, TokenizerConfig(kind=kind, vocab_size=size, byte_fallback=kind != "char")
    )
    theirs = converted(ours)
    texts = [*english[-10_000:], *japanese[-10_000:]]
    expected = ours.encode_batch(texts)
    result = [one.ids for one in theirs.encode_batch(texts, add_special_tokens=False)]
    different = [(mine, other) for mine, other in zip(expected, result, strict=True) if mine != other]
    assert len(different) <= (4 if kind == "unigram" else 0)
    assert all(sorted(mine) == sorted(other) for mine, other in different)
    assert theirs.decode_batch(expected[::40]) == [ours.decode(ids) for ids in expected[::40]]
