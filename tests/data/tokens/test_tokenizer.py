"""Conversion of text to tokens and back."""

from __future__ import annotations

import random

import numpy as np
import pytest

from data.config import TokenizerConfig
from data.errors import DataError
from data.tokens.loading import load_tokenizer
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer, segments
from data.tokens.token_file import TokenWriter, open_tokens, token_dtype
from data.tokens.tokenizer import Tokenizer
from generation.text_streaming import StreamingDecoder
from tests.data.conftest import made_pairs, made_text

SAMPLE = [made_text(), "\t<unk> <s> 猫が座った。▁_ tab\there\r\n  two spaces", *(ja for _, ja in made_pairs(60))]
KINDS = [("char", 600), ("bpe", 500), ("unigram", 500)]


def trained(kind: str, vocab_size: int, **more: object) -> Tokenizer:
    return SentencePieceTokenizer.train(SAMPLE, TokenizerConfig(kind=kind, vocab_size=vocab_size, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=KINDS, ids=[kind for kind, _ in KINDS])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Return a tokenizer of each kind, with byte fallback."""
    kind, vocab_size = request.param
    return trained(kind, vocab_size, byte_fallback=True)


def random_texts(count: int, seed: int) -> list[str]:
    """Return texts with everything that has broken a tokenizer before, and random code points."""
    source = random.Random(seed)
    known = (
        "a;the ;\n;\t; ;  ;▁;\0;日本;🎉;👨‍👩‍👧;\ufdd0;\ufdd1;\r\n;\u2028;é;e\u0301;<unk>;<0x41>;０;\ufeff;fox".split(
            ";"
        )
    )

    def piece() -> str:
        if source.random() < 0.7:
            return source.choice(known)
        return chr(source.choice((source.randrange(0xD800), source.randrange(0xE000, 0x110000))))

    return ["".join(piece() for _ in range(source.randrange(14))) for _ in range(count)]


def test_any_text_comes_back_exactly(tokenizer: Tokenizer) -> None:
    """Guards lossless round trips: newlines, tabs, leading and double spaces, a literal ▁."""
    for text in [*SAMPLE, *random_texts(600, seed=1)]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(("kind", "vocab_size"), KINDS)
def test_covered_text_comes_back_exactly_without_byte_fallback(kind: str, vocab_size: int) -> None:
    """Guards the default (no byte fallback): text in characters of the training text is lossless, including tabs
    and ▁."""
    tokenizer = trained(kind, min(vocab_size, 320))
    for text in SAMPLE:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.unk_id not in tokenizer.encode(text)


def test_encoding_a_batch_equals_encoding_one_by_one(tokenizer: Tokenizer) -> None:
    """Guards the threaded path, which regroups the lines of each text."""
    texts = ["", "one line", "two\nlines", "\n\n", *random_texts(200, seed=2), ""]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(["a b", "c"]) == [tokenizer.encode("a b"), tokenizer.encode("c")]


def test_lines_encoded_apart_equal_the_whole(tokenizer: Tokenizer) -> None:
    """Guards streaming and parallel tokenising: no token spans a line boundary."""
    text = made_text(50) + "\n\n  x " + "long words " * 2000
    whole = tokenizer.encode(text)
    assert whole == [token for line in text.splitlines(keepends=True) for token in tokenizer.encode(line)]
    assert len(segments("word " * 4000)) > 3
    assert "".join(segments(text)) == text


def test_special_ids_are_fixed_and_decode_to_nothing(tokenizer: Tokenizer) -> None:
    """Guards the ids on which models and decoding rely."""
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    ids = tokenizer.encode("fox")
    assert tokenizer.decode([2, *ids, 3, 0]) == "fox"
    assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_words_that_look_like_special_tokens_are_text(tokenizer: Tokenizer) -> None:
    """Guards WikiText: its words <unk> must neither break training nor become id 1."""
    ids = tokenizer.encode("<unk> <s> </s> <pad> <0x41>")
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.never_written == [tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id]
    assert tokenizer.decode(ids) == "<unk> <s> </s> <pad> <0x41>"


def test_unknown_characters_become_one_visible_mark() -> None:
    """Guards against a crash or an invisible loss for characters outside the vocabulary."""
    tokenizer = trained("char", 600)
    assert tokenizer.decode(tokenizer.encode("a🎉b")) == "a\ufffdb"


def test_a_broken_prompt_is_encoded_like_a_replacement_character(tokenizer: Tokenizer) -> None:
    """Guards prompts from a shell in another encoding, which Python passes on as lone surrogates."""
    assert tokenizer.decode(tokenizer.encode("a\udce9b")) == "a\ufffdb"


def test_labels_show_spaces_and_control_characters(tokenizer: Tokenizer) -> None:
    """Guards labelled maps: a raw newline in a label would break the layout."""
    text = "a b\n\tc"
    labels = tokenizer.pieces(tokenizer.encode(text))
    assert "".join(labels).startswith("a▁b↵")
    assert not any(character in label for label in labels for character in "\n\t ")


def test_spans_cover_every_character_once(tokenizer: Tokenizer) -> None:
    """Guards the projection of gold alignments to tokens: byte offsets, escapes and lines must not shift spans."""
    for text in ["", "The 猫 sat.\nOn 🎉\tit ▁ \ufdd0!", *random_texts(300, seed=3)]:
        ids, spans = tokenizer.spans(text)
        assert ids == tokenizer.encode(text)
        assert len(spans) == len(ids)
        covered = sorted(set(spans))
        assert "".join(text[start:end] for start, end in covered) == text
    ids, spans = tokenizer.spans("x🎉")
    assert spans[-4:] == [(1, 2)] * 4  # four bytes, one character


def test_streamed_text_equals_decoded_text_and_never_ends_in_half_a_character(tokenizer: Tokenizer) -> None:
    """Guards terminals: Japanese and emoji encoded as bytes appear complete, however the tokens are fed."""
    for text in ["猫が🎉座った👨‍👩‍👧。\n▁\ufdd0x", *random_texts(200, seed=4)]:
        ids = tokenizer.encode(text)
        decoder = StreamingDecoder(tokenizer)
        shown = ""
        for token in ids:
            shown += decoder.feed([token])
            assert text.startswith(shown)
        assert shown + decoder.flush() == text
        assert decoder.feed(ids) + decoder.flush() == text


def test_streaming_any_ids_equals_decoding_them(tokenizer: Tokenizer) -> None:
    """Guards sampling from an untrained model: invalid byte sequences and stray escapes look the same both ways."""
    source = random.Random(5)
    for _ in range(300):
        ids = [source.randrange(tokenizer.vocab_size) for _ in range(20)]
        decoder = StreamingDecoder(tokenizer)
        assert "".join(decoder.feed([token]) for token in ids) + decoder.flush() == tokenizer.decode(ids)


def test_normalisation_is_a_choice() -> None:
    """Guards Japanese output: full-width digits are kept by default and replaced with NFKC."""
    assert (kept := trained("char", 600)).decode(kept.encode("０")) != "0"
    texts = ["０１２ 012 ｱ\n"] * 20
    nfkc = SentencePieceTokenizer.train(texts, TokenizerConfig(kind="char", vocab_size=60, normalization="nfkc"))
    identity = SentencePieceTokenizer.train(texts, TokenizerConfig(kind="char", vocab_size=60))
    assert nfkc.decode(nfkc.encode("０1ｱ")) == "01ア"
    assert identity.decode(identity.encode("０1ｱ")) == "０1ｱ"


def test_a_character_vocabulary_holds_every_character_however_rare() -> None:
    """Guards the bounded training sample: a character that occurs once at the end of a large text has an id."""
    texts = ["abc abc\n" * 40] * 3000 + ["é"]
    tokenizer = SentencePieceTokenizer.train(texts, TokenizerConfig(kind="char", vocab_size=100))
    assert tokenizer.vocab_size == 4 + len(set("abc \né"))
    assert tokenizer.decode(tokenizer.encode("é")) == "é"


def test_a_vocabulary_larger_than_the_text_names_the_largest_possible(capfd: pytest.CaptureFixture[str]) -> None:
    """Guards users against SentencePiece's C++ message; the suggested size works."""
    with pytest.raises(DataError, match=r"tokenizer.vocab_size=50000 .* at most (\d+)") as caught:
        trained("unigram", 50000)
    largest = int(str(caught.value).rsplit(" ", 1)[1])
    assert trained("unigram", largest).vocab_size == largest
    assert capfd.readouterr().err == ""


def test_a_vocabulary_smaller_than_the_alphabet_names_the_least(capfd: pytest.CaptureFixture[str]) -> None:
    """Guards Japanese users: the error explains that the vocabulary is smaller than the alphabet."""
    with pytest.raises(DataError, match=r"tokenizer.vocab_size=20 .* at least \d+"):
        trained("bpe", 20)
    assert capfd.readouterr().err == ""


def test_a_saved_tokenizer_is_the_same(tokenizer: Tokenizer, tmp_path) -> None:
    """Guards run folders: the saved tokenizer is complete."""
    tokenizer.save(tmp_path / "tokenizer.model")
    loaded = load_tokenizer(tmp_path / "tokenizer.model")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode(SAMPLE[1]) == tokenizer.encode(SAMPLE[1])


@pytest.mark.parametrize("content", [None, b"", b"not a model"])
def test_a_missing_or_damaged_model_file_is_named(content: bytes | None, tmp_path) -> None:
    """Guards loading a run folder without a valid tokenizer."""
    path = tmp_path / "tokenizer.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.model"):
        load_tokenizer(path)


def test_a_model_with_a_piece_that_is_not_utf8_is_damaged(tokenizer: Tokenizer, tmp_path) -> None:
    """Guards against a traceback at the first word that contains the piece: SentencePiece loads such a model."""
    path = tmp_path / "tokenizer.model"
    path.write_bytes(tokenizer.model.replace("\u2581".encode(), b"\xbb\x96\x81", 1))
    with pytest.raises(DataError, match=r"tokenizer\.model: not a tokenizer, or damaged"):
        load_tokenizer(path)


def test_token_files_use_two_bytes_where_they_can(tmp_path) -> None:
    """Guards disk and memory (half of 4-byte ids), and large vocabularies against overflow."""
    assert token_dtype(65536) is np.uint16
    assert token_dtype(65537) is np.uint32
    for vocab_size, ids in ((65536, [65535, 1, 0]), (65537, [65536, 1, 0])):
        with TokenWriter(tmp_path / "tokens.bin", vocab_size, unk_id=1) as writer:
            writer.write([ids, []])
            writer.write([[5]])
        assert (writer.count, writer.unknown) == (4, 1)
        assert open_tokens(tmp_path / "tokens.bin", vocab_size).tolist() == [*ids, 5]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_size_that_is_not_given_fits_the_text(kind: str) -> None:
    """Guards the first command on a small text: the usual vocabulary size does not fit, and the largest possible one
    would memorise its words."""
    source = random.Random(1)
    words = ["".join(source.choices("aeinorstlh", k=source.randint(2, 9))) for _ in range(5000)]
    lines = [" ".join(source.choices(words, k=9)) + "\n" for _ in range(9000)]
    page = "".join(lines[:40])
    small = SentencePieceTokenizer.train([page], TokenizerConfig(kind=kind))
    assert small.vocab_size == 4 + len(set(page)) + len(page) // 400
    assert small.decode(small.encode(page)) == page
    assert SentencePieceTokenizer.train(lines, TokenizerConfig(kind=kind)).vocab_size == 1024
    characters = "".join(chr(0x4E00 + n) for n in range(2000))
    large = SentencePieceTokenizer.train([*lines, characters], TokenizerConfig(kind=kind))
    assert large.vocab_size == 4 + len(set("".join(lines))) + 2000 + 400


@pytest.mark.parametrize(
    ("kind", "texts", "settings"),
    [
        ("bpe", ["ab" * 10_000], {}),  # can fill less than its length allows
        ("unigram", ["猫が座った。\n"] * 500, {}),
        ("bpe", [chr(0x4E00 + n) for n in range(3000)], {}),  # an alphabet beyond the usual size
        ("unigram", ["a㍿b"], {"normalization": "nfkc"}),  # grows when it is normalised
        ("bpe", ["a"], {"byte_fallback": True}),
        ("char", ["abc é"], {}),
    ],
    ids=["repeated", "repeated lines", "Chinese", "nfkc", "bytes", "characters"],
)
def test_a_size_that_is_not_given_never_fails(kind: str, texts: list[str], settings: dict[str, object]) -> None:
    """Guards unusual texts: the default size fits any text and covers all its characters."""
    tokenizer = SentencePieceTokenizer.train(texts, TokenizerConfig(kind=kind, **settings))  # type: ignore[arg-type]
    assert not any(tokenizer.unk_id in ids for ids in tokenizer.encode_batch(texts))
