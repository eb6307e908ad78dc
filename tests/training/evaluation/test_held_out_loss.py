"""Cost of an evaluation, and the baselines of its scores."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from data.batches.batch import Batch
from data.config import DataConfig, TokenizerConfig
from data.primer import rows
from data.token_cache import prepare
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from generation.neighbours import translation_memory
from model.config import ModelConfig
from model.gpt import GPT
from training.evaluation.coreference import pronouns
from training.evaluation.head_importance import head_importance
from training.evaluation.head_scores import antecedent_scores
from training.evaluation.held_out_loss import held_out_loss
from training.evaluation.pronouns import choice, score_pronouns
from training.evaluation.story_answers import score_answers
from training.evaluation.translation_scores import baselines

STORIES = rows("stories", 8, seed=3)
WIDE = 40_000
"""Entries of the vocabulary: more than the largest attention map of these models has."""


class Largest(TorchDispatchMode):
    """Records the number of entries of the largest tensor."""

    entries = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation of torch and record the size of its result."""
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.entries = max(self.entries, result.numel())
        return result


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Return a tokenizer of the stories."""
    return SentencePieceTokenizer.train([row["text"] for row in STORIES], TokenizerConfig(kind="bpe", vocab_size=200))


def windows() -> list[Batch]:
    tokens = torch.randint(200, (4, 65))
    return [Batch(tokens[:, :-1], tokens[:, 1:])]


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda model, tokenizer: held_out_loss(model, windows(), 1),
        lambda model, tokenizer: head_importance(model, windows()),
        lambda model, tokenizer: antecedent_scores(model, tokenizer, STORIES),
        lambda model, tokenizer: score_answers(model, tokenizer, STORIES),
        lambda model, tokenizer: score_pronouns(
            model, tokenizer, [choice(row, p) for row in STORIES for p in pronouns(row, row["text"])]
        ),
    ],
    ids=["validation loss", "head importance", "head scores", "answers", "pronouns"],
)
def test_no_evaluation_holds_the_logits_of_a_whole_batch(
    evaluate: Callable[[GPT, Tokenizer], object], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against 1.3 GB of logits with a vocabulary of 32,000, three times the memory of training."""
    monkeypatch.setattr("training.loss._TOKENS", 16)
    monkeypatch.setattr("training.loss._LOGITS", 16 * WIDE)
    model = GPT(ModelConfig(layers=1, heads=2, width=16, context=256), WIDE).eval()
    with Largest() as largest:
        assert evaluate(model, tokenizer) is not None
    assert largest.entries <= 16 * len(model.head.weight)


def test_the_translation_memory_holds_a_bounded_number_of_pairs_and_says_so(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a test that takes hours, or all memory, with millions of training pairs."""
    data = DataConfig(sentences=300, cache=str(tmp_path_factory.mktemp("cache")))
    prepared = prepare("translate", data, TokenizerConfig(kind="bpe", vocab_size=500), 64, 1)
    train = prepared.rows("train")[:]
    whole = baselines(prepared, train["source"][:20], train["target"][:20])
    assert list(whole) == ["nearest training sentence", "most frequent sentence"]
    assert whole["nearest training sentence"].exact == 100
    monkeypatch.setattr(translation_memory, "REMEMBERED", 100)
    kept = len(train["source"][:: -(-len(train["source"]) // 100)])
    part = baselines(prepared, train["source"][:20], train["target"][:20])
    assert list(part) == [f"nearest of {kept} training sentences", "most frequent sentence"]
    assert 0 < part[f"nearest of {kept} training sentences"].exact < 100
