"""Scoring a language model on pronouns whose antecedent is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from data.config import TokenizerConfig
from data.primer import rows
from data.tokenizer import Tokenizer
from model.config import ModelConfig
from model.gpt import GPT
from training.pronouns import choices, log_probabilities, score_pronouns

STORIES = rows("stories", 60, seed=3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Pieces of the stories."""
    return Tokenizer.train([row["text"] for row in STORIES], TokenizerConfig(kind="bpe", vocab_size=300))


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> GPT:
    """Untrained: what is scored here is the scoring."""
    torch.manual_seed(0)
    return GPT(ModelConfig(layers=1, heads=2, width=32, context=256), tokenizer.vocab_size).eval()


def test_each_candidate_stands_once_in_place_of_the_pronoun() -> None:
    """A candidate with a wrong article or capital would be improbable for that alone."""
    found = [choice for row in STORIES for choice in choices(row)]
    assert len(found) > 60
    for row in STORIES:
        for choice in choices(row):
            start, end = choice.pronoun.start, choice.pronoun.end
            assert choice.pronoun.antecedent in choice.texts
            assert len(choice.texts) > 1
            for referent, text in choice.texts.items():
                name = row["names"][referent]
                assert text[:start] == row["text"][:start]
                assert text[start:].lower().startswith(name.lower() + row["text"][end:].lower()[:3])
                assert text[start:].endswith(row["text"][end:])
                assert text[start].isupper() == (row["text"][start].isupper() or name[0].isupper())
                assert name.startswith("the ") or name[0].isupper() or " " not in name


def test_probabilities_are_those_of_each_text_alone(model: GPT, tokenizer: Tokenizer) -> None:
    """Padding or sorting in the batch must not leak into a score; the order of the answers is that of the questions."""
    texts = [row["text"] for row in STORIES[:9]] + ["A cat."]
    for text, score in zip(texts, log_probabilities(model, tokenizer, texts), strict=True):
        ids = torch.tensor([[tokenizer.eos_id, *tokenizer.encode(text), tokenizer.eos_id]])
        with torch.no_grad():
            nats = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[0, 1:], reduction="sum")
        assert score == pytest.approx(-float(nats), rel=1e-4)


def test_a_text_beyond_the_context_has_no_score(tokenizer: Tokenizer) -> None:
    """Cut off it would look probable."""
    short = GPT(ModelConfig(layers=1, heads=2, width=32, context=16), tokenizer.vocab_size).eval()
    assert log_probabilities(short, tokenizer, ["A cat.", STORIES[0]["text"]])[1] == -math.inf


def test_the_model_takes_the_most_probable_story(model: GPT, tokenizer: Tokenizer) -> None:
    """The score is the share of pronouns for which the right noun gives the most probable story; the guesses beside it are of
    the same pronouns."""
    right = total = 0
    for row in STORIES:
        for choice in choices(row):
            scores = log_probabilities(model, tokenizer, list(choice.texts.values()))
            taken = max(zip(scores, choice.texts, strict=True))[1]
            right += taken == choice.pronoun.antecedent
            total += 1
    scored = score_pronouns(model, tokenizer, STORIES)
    assert scored is not None
    assert scored.count == total
    assert scored.model == pytest.approx(100 * right / total, abs=2.0)  # ties of float32 sums may fall either way
    assert set(scored.guesses) == {"nearest noun", "first noun", "most frequent noun"}
    assert 20 < scored.chance < 50


def test_without_a_contested_pronoun_there_is_nothing_to_score(model: GPT, tokenizer: Tokenizer) -> None:
    """A share of nothing is no figure."""
    assert score_pronouns(model, tokenizer, []) is None
