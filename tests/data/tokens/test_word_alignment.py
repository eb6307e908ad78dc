"""Projection of gold links to the tokens of real tokenizers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from data.config import DataConfig, TokenizerConfig
from data.primer import rows
from data.primer.grammar.choice import Chooser
from data.primer.grammar.sentences import Sentence, derive
from data.primer.grammar.tree import alignment
from data.token_cache import prepare
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from data.tokens.tokenizer_training import marked
from data.tokens.word_alignment import possible, project


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    """Return sentences whose links are still attached to words."""
    chooser = Chooser(random.Random(21))
    return [derive(chooser) for _ in range(1500)]


@pytest.fixture(scope="module", params=[("char", 400), ("bpe", 1200), ("unigram", 1200)], ids=lambda param: param[0])
def tokenizer(request: pytest.FixtureRequest, sentences: list[Sentence]) -> Tokenizer:
    """Return a tokenizer trained on both sides of these sentences."""
    kind, size = request.param
    texts = [side.text for sentence in sentences for side in sentence.written()]
    return SentencePieceTokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=size))


def test_every_link_of_a_content_word_survives(tokenizer: Tokenizer, sentences: list[Sentence]) -> None:
    """Guards against links lost in the projection, which would count as errors of a head."""
    links = 0
    for sentence in sentences:
        source, target = sentence.written()
        _, pieces = tokenizer.spans(source.text)
        _, others = tokenizer.spans(target.text)
        result = set(project(alignment(source, target), pieces, others))
        for word, start, end in source.words:
            if not (word.content and word.link):
                continue
            assert source.text[start:end].lower() == word.text.lower()
            for a, b in target.spans[word.link]:
                assert 0 <= a < b <= len(target.text)
                mine = {i for i, (s, e) in enumerate(pieces) if s < end and start < e}
                theirs = {j for j, (s, e) in enumerate(others) if s < b and a < e}
                assert mine
                assert theirs
                assert {(i, j) for i in mine for j in theirs} <= result, (source.text, target.text, word.text)
                links += 1
    assert links > 3 * len(sentences)


def test_projection_needs_a_shared_character() -> None:
    """Guards against off-by-one errors: adjacent spans are not linked."""
    gold = [[0, 3, 2, 4]]
    assert project(gold, [(0, 2), (2, 3), (3, 6)], [(0, 2), (2, 3), (3, 9)]) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert project(gold, [(3, 6)], [(2, 4)]) == []
    assert project([[0, 1, 0, 1], [0, 1, 0, 1]], [(0, 1)], [(0, 1)]) == [(0, 0)]


def test_links_between_words_stay_within_the_words() -> None:
    """Guards aligners and their scorers: words contain no spaces and cover both sides, and links are within range."""
    for row in rows("sentences", 200, seed=2):
        words = [
            [side[a:b] for a, b in spans]
            for side, spans in zip((row["source"], row["target"]), row["words"], strict=True)
        ]
        assert all(word and " " not in word for side in words for word in side)
        assert "".join(words[0]) == row["source"].replace(" ", "")
        assert "".join(words[1]) == row["target"]
        for i, j in project(row["alignment"], *row["words"]):
            assert 0 <= i < len(words[0])
            assert 0 <= j < len(words[1])


def test_possible_links_of_unlinked_words() -> None:
    """Guards possible links: a particle or an article shares the links of its noun, and no others."""
    # source: a cup broke ; target: コップ が 割れた
    assert possible({(1, 0), (2, 2)}, 3, 3) == {(1, 0), (2, 2), (1, 1), (0, 0), (0, 1)}
    assert possible(set(), 2, 2) == set()
    # A particle in front of everything, and an article behind everything, belong to nothing.
    assert possible({(0, 1)}, 2, 2) == {(0, 1)}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_no_piece_of_a_vocabulary_spans_two_words_that_the_corpus_tells_apart(kind: str) -> None:
    """Guards readable maps: with サムは as one piece, the particle would have no row of its own."""
    pairs = rows("sentences", 600, seed=3)
    texts = [
        marked(row[side], words)
        for row in pairs
        for side, words in zip(("source", "target"), row["words"], strict=True)
    ]
    tokenizer = SentencePieceTokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=700))
    learnt = {tokenizer.pieces([token])[0].strip("▁") for token in range(4, tokenizer.vocab_size)}
    spelled = {
        row[side][a:b]
        for row in pairs
        for side, words in zip(("source", "target"), row["words"], strict=True)
        for a, b in words
    }
    assert [piece for piece in learnt if piece and not any(piece in word for word in spelled)] == []
    assert any(len(piece) > 2 for piece in learnt)
    text = pairs[0]["target"]
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_vocabulary_of_a_run_is_learnt_inside_words(tmp_path: Path) -> None:
    """Guards the word boundaries on their way from the corpus to a run's tokenizer."""
    config = DataConfig(sentences=1500, cache=str(tmp_path))
    prepared = prepare("translate", config, TokenizerConfig(kind="bpe", vocab_size=900), 64, 1)
    words = {
        row[side][a:b]
        for row in prepared.rows("train")
        for side, spans in zip(("source", "target"), row["words"], strict=True)
        for a, b in spans
    }
    tokenizer = prepared.target_tokenizer
    learnt = {tokenizer.pieces([token])[0].strip("▁") for token in range(4, tokenizer.vocab_size)}
    assert [piece for piece in learnt if piece and not any(piece in word for word in words)] == []
