"""Tokenizers in the browser: ids, pieces, spans and decoded text are those of the Python tokenizer, and so of
SentencePiece."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from data.config import TokenizerConfig
from data.primer.corpus import rows, sides
from data.tokens.huggingface_tokenizer import HuggingFaceTokenizer
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from page.tokenizer_data import Proto, tokenizer_data
from tests.data.conftest import real  # noqa: F401 (a fixture)
from tests.data.tokens.test_tokenizer import random_texts
from tests.page.conftest import Browser

LINES = 150
"""Lines of each language, and random texts, per tokenizer. Raise it to 10,000 after a change of the algorithms."""

VARIANTS: dict[str, TokenizerConfig] = {
    "char": TokenizerConfig("char"),
    "bpe": TokenizerConfig("bpe", 700),
    "unigram": TokenizerConfig("unigram", 700),
    "char-bytes": TokenizerConfig("char", 400, byte_fallback=True),
    "bpe-bytes": TokenizerConfig("bpe", 600, 0.98, byte_fallback=True),
    "unigram-bytes": TokenizerConfig("unigram", 600, 0.98, byte_fallback=True),
    "bpe-nfkc": TokenizerConfig("bpe", 700, normalization="nfkc"),
    "unigram-nfkc": TokenizerConfig("unigram", 600, 0.98, byte_fallback=True, normalization="nfkc"),
    "one-line": TokenizerConfig("char"),
}
"""Each kind with and without byte fallback and normalisation; a small vocabulary lacks characters of the texts."""

AMBIGUOUS = {"bpe": 1.0, "unigram": 1.0, "unigram-large": 1234.567}
"""Kinds with scores that tie, and their scale; with a large one, float32 sums of a line are inexact and start anew."""

COMPARE = """
const {Tokenizer} = await import('/engine/tokenizer/tokenizer.js');
const {data, encoded, decoded, tokens, roles} = await (await fetch(`/files/${values[0]}`)).json();
const tokenizer = new Tokenizer(data);
const differences = [];
const compare = (what, input, result, expected) => {
  if (JSON.stringify(result) !== JSON.stringify(expected)) differences.push([what, input, result, expected]);
};
for (const [text, ids, spans, pieces, whole] of encoded) {
  compare('ids', text, tokenizer.encode(text), ids);
  compare('spans', text, tokenizer.spans(text), {ids, spans});
  compare('pieces', text, tokenizer.pieces(ids), pieces);
  compare('decoded', text, tokenizer.decode(ids), whole);
}
for (const [ids, text] of decoded) compare('decoded', ids, tokenizer.decode(ids), text);
for (const [id, token] of tokens.entries()) {
  compare('token', id, [tokenizer.pieces([id])[0], Array.from(tokenizer.pieceBytes(id))], token);
}
const {padId, unkId, bosId, eosId, startId, specialIds, stopIds, neverWritten, vocabSize} = tokenizer;
compare('ids', '', [padId, unkId, bosId, eosId, startId, vocabSize], roles.slice(0, 6));
compare('sets', '', [[...specialIds], [...stopIds], neverWritten], roles.slice(6));
return {count: encoded.length, differences: differences.slice(0, 5), different: differences.length};
"""


@cache
def corpus() -> list[str]:
    """Return stories, and sentences in English and Japanese, of the built-in corpus."""
    sentences = [side for row in rows("sentences", LINES, seed=7, processes=0) for side in sides(row)]
    return [*sentences, *(side for row in rows("stories", LINES // 10, seed=7, processes=0) for side in sides(row))]


@cache
def trained(name: str) -> Tokenizer:
    """Return a tokenizer of VARIANTS, trained on the built-in corpus."""
    texts = [*corpus(), "\ufffd \ufdd0 \ufdd3 \t" * 40, "\n" if name != "one-line" else ""]
    return SentencePieceTokenizer.train(texts, VARIANTS[name])


@cache
def trained_on_pairs(folder: Path, name: str) -> tuple[Tokenizer, list[str]]:
    """Return a tokenizer trained on sentence pairs, and LINES other English and Japanese sentences."""
    table = [line.split("\t")[:2] for line in (folder / "train.tsv").read_text("utf-8").splitlines()]
    english, japanese = zip(*table, strict=True)
    size, has_bytes = None if name == "char" else 3000, name.endswith("bytes")
    config = TokenizerConfig(name.removesuffix("-bytes"), size, 0.9995 if has_bytes else 1.0, byte_fallback=has_bytes)
    tokenizer = SentencePieceTokenizer.train([*english[:3000], *japanese[:3000]], config)
    return tokenizer, [*english[-LINES:], *japanese[-LINES:]]


@cache
def ambiguous(name: str) -> Tokenizer:
    """Return a tokenizer of AMBIGUOUS: random pieces, of which some contain characters that are no pieces."""
    draw = random.Random(6)
    model = Proto.FromString(trained("bpe").model)
    del model.pieces[5:]  # special tokens and the newline stay
    model.trainer_spec.model_type = {"unigram": 1, "bpe": 2}[name.removesuffix("-large")]
    spellings = {
        draw.choice(["", "", "▁"]) + "".join(draw.choice("abc0日") for _ in range(draw.randrange(5)))
        for _ in range(300)
    }
    for spelling in sorted(spellings - {"", "c", "▁"}):
        model.pieces.add(piece=spelling, score=-AMBIGUOUS[name] * draw.randrange(1, 40) / 2)
    return SentencePieceTokenizer(model.SerializeToString())


def hostile_texts() -> list[str]:
    """Return texts in which segmentations tie, characters are normalised, and escapes, special names and surrogates
    stand."""
    draw = random.Random(3)
    wide = "ｶﾞｷﾞ ㍿㌔ﬁÅ①　ＡＢＣe\u0301e\u0301\u0327\u1100\u1161\u11a8 \u00a0½ﷺ𝔘𠮷️が🇯🇵\U0010ffff"
    mixed = ["".join(draw.choices("aabbc00日 é\n", (9,) * 9 + (1, 1), k=draw.randrange(90))) for _ in range(LINES)]
    return [
        *("", " ", "   ", "\n", "\n\n \n", "\0", "\ufeff", "\ufdd0pad\ufdd5 \ufdd4", "a\ud83d b\udc00\udfff"),
        *("<0x41></s><pad>", "<0xE3><0x81><0x82>", "word " * 3000, "x" * 5000 + " y" * 20, "日" * 9000 + "00000"),
        *("é" * 4095 + " é", "é" * 4096 + " é"),  # on both sides of the longest line
        *("".join(draw.choice(wide + "a 日") for _ in range(draw.randrange(12))) for _ in range(LINES)),
        *mixed,
        "".join(draw.choices("abc0日 ", (90, 90, 90, 90, 90, 1), k=12_000)),
        *random_texts(LINES, seed=5),
    ]


def random_ids(tokenizer: Tokenizer) -> list[list[int]]:
    """Return ids that are no encoded text: half characters and escapes, special tokens."""
    draw = random.Random(4)
    special = [*tokenizer.special_ids, *tokenizer.encode("\ufdd0\ufdd3\t🎉"), *tokenizer.encode("日\0")]
    return [
        [draw.choice(special) if draw.random() < 0.3 else draw.randrange(tokenizer.vocab_size) for _ in range(length)]
        for length in (draw.randrange(10) for _ in range(2 * LINES))
    ]


def compare(browser: Browser, name: str, tokenizer: Tokenizer, texts: Sequence[str]) -> set[int]:
    """Assert that the browser's tokenizer equals ours on texts and on random ids; return the ids that occur."""
    encoded = [(text, *tokenizer.spans(text)) for text in texts]
    assert tokenizer.encode_batch(texts) == [ids for _, ids, _ in encoded]
    expected: dict[str, Any] = {
        "data": tokenizer_data(tokenizer),
        "encoded": [(*case, tokenizer.pieces(case[1]), tokenizer.decode(case[1])) for case in encoded],
        "decoded": [(ids, tokenizer.decode(ids)) for ids in random_ids(tokenizer)],
        "tokens": [(tokenizer.pieces([id])[0], [*tokenizer.piece_bytes(id)]) for id in range(tokenizer.vocab_size)],
        "roles": [
            *(tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.start_id),
            *(tokenizer.vocab_size, sorted(tokenizer.special_ids), sorted(tokenizer.stop_ids), tokenizer.never_written),
        ],
    }
    (browser.files / f"{name}.json").write_text(json.dumps(expected))  # in ASCII: halves of surrogate pairs survive
    result = browser.run(COMPARE, f"{name}.json")
    assert result["count"] == len(texts)
    assert result["different"] == 0, result["differences"]
    return {token for _, ids, _ in encoded for token in ids}


@pytest.mark.parametrize("name", VARIANTS)
def test_tokens_are_those_of_sentencepiece(browser: Browser, name: str) -> None:
    """Guards the order of merges, ties, float32 sums, escapes, normalisation, unknown characters and bytes, on the
    built-in corpus and on hostile texts."""
    tokenizer = trained(name)
    seen = compare(browser, name, tokenizer, [*corpus(), *hostile_texts()])
    falls_back = bool(seen & set(tokenizer_data(tokenizer)["bytes"]))
    assert falls_back == VARIANTS[name].byte_fallback
    assert (tokenizer.unk_id in seen) == (not falls_back)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_ties_and_inexact_sums_are_those_of_sentencepiece(browser: Browser, name: str) -> None:
    """Guards which of equal merges or segmentations is chosen, the score of unknown characters, and float32."""
    tokenizer = ambiguous(name)
    seen = compare(browser, f"ambiguous-{name}", tokenizer, hostile_texts())
    assert len(seen) > 0.4 * tokenizer.vocab_size


@pytest.mark.parametrize("name", ["char", "bpe", "unigram", "bpe-bytes", "unigram-bytes"])
def test_tokens_of_real_lines_are_those_of_sentencepiece(
    browser: Browser,
    name: str,
    real: Callable[[str], str],  # noqa: F811
) -> None:
    """Guards equality on natural English and Japanese, with the rare characters of both."""
    tokenizer, lines = trained_on_pairs(Path(real("tatoeba_enja")), name)
    seen = compare(browser, f"real-{name}", tokenizer, lines)
    assert len(seen) > 300
    if name.endswith("bytes"):
        assert seen & set(tokenizer_data(tokenizer)["bytes"])


@pytest.mark.parametrize("name", ["char-bytes", "bpe-bytes", "unigram-nfkc"])
def test_the_time_of_long_texts_is_not_quadratic(browser: Browser, name: str) -> None:
    """Guards pasted books: a line of 100,000 characters without a space, and its equality, since the unigram search
    counts its sums anew in it."""
    draw = random.Random(2)
    letters = [character for character in sorted(set("".join(corpus()))) if not character.isspace()]
    text = "".join(draw.choice([*letters, "🎉"]) for _ in range(100_000))
    tokenizer = trained(name)
    (browser.files / f"long-{name}.json").write_text(json.dumps([tokenizer_data(tokenizer), text]))
    ids, milliseconds = browser.run(
        """
        const {Tokenizer} = await import('/engine/tokenizer/tokenizer.js');
        const [data, text] = await (await fetch(`/files/${values[0]}`)).json();
        const tokenizer = new Tokenizer(data);
        const start = performance.now();
        return [tokenizer.encode(text), performance.now() - start];
        """,
        f"long-{name}.json",
    )
    assert ids == tokenizer.encode(text)
    assert milliseconds < 10_000  # a quadratic search takes minutes


def test_the_data_is_small() -> None:
    """Guards the size of the page: the pieces, and a few digits for each score."""
    assert len(json.dumps(tokenizer_data(trained("unigram")))) < 30 * 700


def changed(change: Callable[[Any], None]) -> Tokenizer:
    """Return a tokenizer whose SentencePiece model was changed."""
    model = Proto.FromString(trained("bpe").model)
    change(model)
    return SentencePieceTokenizer(model.SerializeToString())


def test_other_tokenizers_are_refused_by_name() -> None:
    """Guards against a page that splits text differently than the run."""
    content: dict[str, Any] = {
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
        "added_tokens": [],
        "decoder": None,
    }
    ids = {"pad_id": 0, "unk_id": -1, "bos_id": 0, "eos_id": 0, "start_id": 0}
    theirs = HuggingFaceTokenizer(HuggingFaceTokenizer.packed(1, ids, [0], tokenizer=content))
    with pytest.raises(UserError, match=r"HuggingFaceTokenizer.*char, bpe or unigram"):
        tokenizer_data(theirs)


@pytest.mark.parametrize("option", ["add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"])
def test_models_with_other_spaces_are_refused(option: str) -> None:
    """Guards against options of SentencePiece that the browser does not have."""
    flip = changed(lambda model: setattr(model.normalizer_spec, option, not getattr(model.normalizer_spec, option)))
    with pytest.raises(UserError, match="not trained by this program"):
        tokenizer_data(flip)


def test_models_with_other_symbols_are_refused() -> None:
    """Guards against user-defined symbols of several characters, which the browser does not match first."""

    def define(model: Any) -> None:
        model.pieces[-1].type = Proto.SentencePiece.USER_DEFINED

    with pytest.raises(UserError, match="not trained by this program"):
        tokenizer_data(changed(define))
