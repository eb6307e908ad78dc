"""Pronoun resolution by a language model, scored against gold antecedents."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from data.config import TokenizerConfig
from data.primer import rows
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from model.config import ModelConfig
from model.gpt import GPT
from training.evaluation.coreference import HEURISTICS, pronouns, share, turns, without_questions
from training.evaluation.pronouns import Choice, answer_choice, choice, log_probabilities, score_pronouns

STORIES = rows("stories", 60, seed=3)
CHOICES = [choice(row, p) for row in STORIES for p in pronouns(row, row["text"]) if p.contested]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Return a tokenizer of the stories."""
    return SentencePieceTokenizer.train([row["text"] for row in STORIES], TokenizerConfig(kind="bpe", vocab_size=300))


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> GPT:
    """Return an untrained model whose weights are large enough for distinct scores: only the scoring is tested here."""
    torch.manual_seed(0)
    gpt = GPT(ModelConfig(layers=1, heads=2, width=32, context=256), tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.mul_(3.0)
    return gpt.eval()


def test_each_candidate_stands_in_place_of_the_pronoun() -> None:
    """Guards against candidates that are improbable only because of a wrong article or capital letter."""
    assert len(CHOICES) > 100
    for row in STORIES:
        for turn in turns(row, row["text"]):
            result = choice(row, turn)
            assert len(result.texts) == 2
            for referent, (first, rest) in result.texts.items():
                name = row["names"][referent]
                assert first == row["text"][: turn.start].removesuffix(" ")
                # Without the questions, which would give the antecedent away.
                assert rest.lower() == f" {name}{without_questions(row, row['text'])[turn.end :]}".lower()
                assert "?" not in rest
                assert rest[1].isupper() == (row["text"][turn.start].isupper() or name[0].isupper())
                assert name.startswith("the ") or name[0].isupper()


def test_a_turn_is_asked_about_and_keeps_its_pronoun() -> None:
    """Guards against a story that names the antecedent, and against an answer that is improbable for its form."""
    asked = 0
    for row in STORIES:
        story = without_questions(row, row["text"])
        for turn, question in zip(turns(row, row["text"]), row["turn_questions"], strict=True):
            if not question:
                continue
            asked += 1
            result = answer_choice(row, turn, question).texts
            assert set(result) == set(turn.candidates)
            assert len({before for before, _ in result.values()}) == 1
            for referent, (before, answer) in result.items():
                assert before.startswith(f"{story} Wh")
                assert before.endswith("?")
                name = row["names"][referent]
                assert answer in [f" {name[0].upper()}{name[1:]}{verb}." for verb in (" was", " did", "")]
    assert asked > 15


def test_the_noun_and_what_follows_count_and_each_text_counts_alone(model: GPT, tokenizer: Tokenizer) -> None:
    """Guards against padding or sorting that changes a score, and against a noun that does not count: 'the lake was
    happy' is improbable at 'lake'."""
    texts = [text for one in CHOICES[:9] for text in one.texts.values()]
    for (first, rest), score in zip(texts, log_probabilities(model, tokenizer, texts), strict=True):
        before = [tokenizer.eos_id, *tokenizer.encode(first)]
        ids = torch.tensor([[*before, *tokenizer.encode(rest), tokenizer.eos_id]])
        assert ids[0, 1:-1].tolist() == tokenizer.encode(first + rest)
        with torch.no_grad():
            logits = model(ids[:, :-1])[0, len(before) - 1 :]
        nats = F.cross_entropy(logits, ids[0, len(before) :], reduction="sum")
        assert score == pytest.approx(-float(nats), rel=1e-4)


def test_what_does_not_fit_is_left_out_and_counted(tokenizer: Tokenizer) -> None:
    """Guards against truncated stories, which would look probable, and against counting them as right or wrong."""
    lengths = sorted(len(tokenizer.encode(row["text"])) for row in STORIES)
    half = GPT(ModelConfig(layers=1, heads=2, width=32, context=lengths[30]), tokenizer.vocab_size).eval()
    scored = score_pronouns(half, tokenizer, CHOICES)
    assert scored is not None
    assert scored.left_out > 20
    assert scored.count + scored.left_out == len(CHOICES)
    none = GPT(ModelConfig(layers=1, heads=2, width=32, context=16), tokenizer.vocab_size).eval()
    assert score_pronouns(none, tokenizer, CHOICES) is None


def test_the_model_takes_the_noun_with_which_the_story_is_most_probable(model: GPT, tokenizer: Tokenizer) -> None:
    """Guards the accuracy, and baselines computed on the same pronouns."""
    right, asked = 0, [one for one in CHOICES if len({*one.texts.values()}) == len(one.texts)]
    for one in asked:
        scores = log_probabilities(model, tokenizer, list(one.texts.values()))
        best = max(range(len(scores)), key=lambda n: scores[n] or 0.0)
        right += [*one.texts][best] == one.pronoun.antecedent
    scored = score_pronouns(model, tokenizer, asked)
    assert scored is not None
    assert scored.count == len(asked)
    assert scored.model == pytest.approx(100 * right / len(asked), abs=0.01)
    for name, rank in HEURISTICS.items():
        assert scored.guesses[name] == pytest.approx(100 * sum(share(c.pronoun, rank) for c in asked) / len(asked))
    assert scored.chance == pytest.approx(100 * sum(1 / len(c.texts) for c in asked) / len(asked))


def test_candidates_of_one_name_are_one_answer(model: GPT, tokenizer: Tokenizer) -> None:
    """Guards candidates with the same name ('the plate' that broke or was bought): they give the same text, so both
    count."""
    pronoun = next(c.pronoun for c in CHOICES if len(c.pronoun.candidates) > 1)
    same = Choice(pronoun, dict.fromkeys(pronoun.candidates, ("A plate. The plate", " was new.")))
    scored = score_pronouns(model, tokenizer, [same])
    assert scored is not None
    assert scored.model == 100.0


def test_without_a_pronoun_there_is_nothing_to_score(model: GPT, tokenizer: Tokenizer) -> None:
    """Guards against an accuracy over no pronouns."""
    assert score_pronouns(model, tokenizer, []) is None
