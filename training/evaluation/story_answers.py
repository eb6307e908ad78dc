"""Evaluate how a language model answers the questions at the end of the built-in stories ("Who was kind? Emi was.").

An answer is right if greedy decoding after the question writes exactly the answer, up to its full stop. This is read
off one forward pass over the story: every token of the answer must be the most probable one after those before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from data.tokens.tokenizer import Tokenizer
from model.gpt import GPT
from training.evaluation.coreference import Accuracy, Pronoun, accuracy, answers
from training.run_folder.log import table

BATCH = 32
"""Stories per forward pass."""


@dataclass(frozen=True)
class Question:
    """A question of a story as tokens: `document[start:stop]` is the answer with its full stop."""

    answer: Pronoun
    document: list[int]
    start: int
    stop: int


def questions_of(tokenizer: Tokenizer, story: dict[str, Any]) -> list[Question]:
    """Return the questions of a story row, in order; a later one follows the earlier ones with their answers."""
    text = story["text"]
    answered = answers(story, text)
    if not answered:
        return []
    ids, spans = tokenizer.spans(text)
    document = [tokenizer.start_id, *ids]
    questions = []
    for answer in answered:
        end = text.index(".", answer.end) + 1
        # From the space before the answer on: it may be a token of its own, which no prompt ends with.
        inside = [place for place, (start, stop) in enumerate(spans, 1) if stop >= answer.start and start < end]
        questions.append(Question(answer, document, inside[0], inside[-1] + 1))
    return questions


@torch.no_grad()
def score_answers(model: GPT, tokenizer: Tokenizer, stories: Iterable[dict[str, Any]]) -> Accuracy | None:
    """Answer the questions of stories; None if there are no questions to score. The caller sets `eval()`."""
    everything = [questions for story in stories if (questions := questions_of(tokenizer, story))]
    fitting = [questions for questions in everything if len(questions[0].document) <= model.config.context]
    fitting.sort(key=lambda questions: len(questions[0].document))  # reduces padding
    if not fitting:
        return None
    device = next(model.parameters()).device
    right = 0
    for first in range(0, len(fitting), BATCH):
        batch = fitting[first : first + BATCH]
        rows = [torch.tensor(questions[0].document) for questions in batch]
        tokens = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_id)
        features = model.features(tokens.to(device))
        for row, questions in enumerate(batch):
            for question in questions:
                written = model.logits(features[row, question.start - 1 : question.stop - 1]).argmax(-1).cpu()
                right += int(torch.equal(written, tokens[row, question.start : question.stop]))
    scored = [question.answer for questions in fitting for question in questions]
    return accuracy(scored, right, sum(map(len, everything)) - len(scored))


def answer_report(scores: Accuracy, split: str) -> tuple[str, str]:
    """Return a log line, and a table with the baselines."""
    lines = {"this model": scores.model} | scores.guesses | {"any candidate": scores.chance}
    rows = [[name, f"{percent:.1f} %"] for name, percent in lines.items()]
    report = table([f"{split}: right answers", f"{scores.count} questions"], rows)
    if scores.left_out:
        report += f"\n\nSkipped: {scores.left_out} questions of stories longer than the context."
    best = max(scores.guesses, key=lambda name: scores.guesses[name])
    summary = (
        f"{split}: right answers to questions about stories: {scores.model:.1f} % of {scores.count}"
        f" ({best} {scores.guesses[best]:.1f} %)"
    )
    return summary, report
