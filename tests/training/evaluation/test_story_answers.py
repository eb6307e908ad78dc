"""Answers of a language model to the questions at the end of the stories."""

from __future__ import annotations

import pytest
import torch

from data.config import TokenizerConfig
from data.primer import rows
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from model.config import ModelConfig
from model.gpt import GPT
from training.evaluation.coreference import HEURISTICS, answers, share
from training.evaluation.story_answers import answer_report, questions_of, score_answers

STORIES = rows("stories", 60, seed=3)
ASKED = [row for row in STORIES if row["questions"]]


class Told(torch.nn.Module):
    """Stands for a model that continues each story as it goes on, except that it never writes some tokens."""

    def __init__(self, tokenizer: Tokenizer, context: int, wrong: set[int]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = ModelConfig(context=context)
        self.tokenizer, self.wrong = tokenizer, wrong

    def features(self, ids: torch.Tensor) -> torch.Tensor:
        """Return, for each token, the one-hot vector of the token that follows in the input."""
        following = torch.roll(ids, -1, 1)
        for token in self.wrong:
            following[following == token] = self.tokenizer.eos_id
        return torch.nn.functional.one_hot(following, self.tokenizer.vocab_size).float()

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """Return the features."""
        return features


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Return a tokenizer of the stories."""
    return SentencePieceTokenizer.train([row["text"] for row in STORIES], TokenizerConfig(kind="bpe", vocab_size=300))


def test_the_answer_is_what_follows_the_question(tokenizer: Tokenizer) -> None:
    """Guards against an answer without its full stop, or with a part of the question."""
    for row in ASKED:
        for one, question in zip(questions_of(tokenizer, row), row["questions"], strict=True):
            before = row["text"][: question[1] - 1]
            assert tokenizer.decode(one.document[1 : one.start]) == before
            assert one.document[1 : one.start] == tokenizer.encode(before)  # as generate.py does with a prompt
            said = tokenizer.decode(one.document[one.start : one.stop]).strip()
            assert said.endswith(".")
            assert said.startswith(row["text"][question[1] : question[2]])
            assert said.count(".") == 1


def test_an_answer_counts_only_if_every_token_is_right(tokenizer: Tokenizer) -> None:
    """Guards against credit for 'Emi did.' where the answer is 'Emi was.', or for half of a name."""
    perfect = score_answers(Told(tokenizer, 512, set()), tokenizer, STORIES)  # type: ignore[arg-type]
    assert perfect is not None
    assert perfect.model == pytest.approx(100)
    assert perfect.count == sum(len(row["questions"]) for row in STORIES)
    (was,) = set(tokenizer.encode("Emi was")) - set(tokenizer.encode("Emi"))
    spoiled = score_answers(Told(tokenizer, 512, {was}), tokenizer, STORIES)  # type: ignore[arg-type]
    assert spoiled is not None
    right = [" was." not in row["text"][q[1] :].split("?")[0] for row in ASKED for q in row["questions"]]
    assert spoiled.model == pytest.approx(100 * sum(right) / len(right))


def test_baselines_are_those_of_the_same_questions(tokenizer: Tokenizer) -> None:
    """Guards the table: a baseline over other questions would make the model look better or worse."""
    result = [answer for row in ASKED for answer in answers(row, row["text"])]
    scored = score_answers(Told(tokenizer, 512, set()), tokenizer, STORIES)  # type: ignore[arg-type]
    assert scored is not None
    for name, rank in HEURISTICS.items():
        assert scored.guesses[name] == pytest.approx(100 * sum(share(a, rank) for a in result) / len(result))
    summary, report = answer_report(scored, "test")
    assert "100.0 %" in summary
    assert all(name in report for name in HEURISTICS)


def test_what_does_not_fit_is_left_out_and_counted(tokenizer: Tokenizer) -> None:
    """Guards against truncated stories, whose questions are missing."""
    lengths = sorted(len(tokenizer.encode(row["text"])) for row in ASKED)
    half = score_answers(Told(tokenizer, lengths[len(lengths) // 2], set()), tokenizer, STORIES)  # type: ignore[arg-type]
    assert half is not None
    assert half.left_out > 10
    assert half.count + half.left_out == sum(len(row["questions"]) for row in STORIES)
    assert score_answers(Told(tokenizer, 8, set()), tokenizer, STORIES) is None  # type: ignore[arg-type]


def test_padding_does_not_change_an_answer(tokenizer: Tokenizer) -> None:
    """Guards batches of stories of different lengths."""
    torch.manual_seed(0)
    model = GPT(ModelConfig(layers=1, heads=2, width=32, context=256), tokenizer.vocab_size).eval()
    together = score_answers(model, tokenizer, STORIES)
    alone = [score_answers(model, tokenizer, [row]) for row in ASKED]
    assert together is not None
    right = sum(one.model * one.count for one in alone if one)
    assert together.model == pytest.approx(right / together.count)
