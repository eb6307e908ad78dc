"""Scores of a language model on stories with gold labels: pronouns and answers to questions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from data.tokens.tokenizer import Tokenizer
from model.gpt import GPT
from training.evaluation.pronouns import pronoun_report
from training.evaluation.story_answers import answer_report, score_answers


@dataclass(frozen=True)
class StoryScore:
    """One kind of score."""

    kind: str
    """`pronouns` or `answers`."""
    summary: str
    """One line."""
    table: str
    """With baselines; empty if nothing was scored."""
    percent: dict[str, float]
    """Accuracies by name."""


def story_scores(
    model: GPT, tokenizer: Tokenizer, stories: Iterable[dict[str, Any]] | None, split: str
) -> list[StoryScore]:
    """Score the stories of a split; no scores if the corpus has no gold labels (None)."""
    if stories is None:
        return []
    scores = [StoryScore("pronouns", *pronoun_report(model, tokenizer, stories, split))]
    if answered := score_answers(model, tokenizer, stories):
        scores.append(StoryScore("answers", *answer_report(answered, split), {"answers": answered.model}))
    return scores
