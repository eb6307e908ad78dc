"""Evaluate pronoun resolution of a language model on the built-in stories, which have gold antecedents.

A turn, which only meaning decides, is scored by its question, as Winograd schemas are (Levesque et al. 2012): after the
story and "Who was kind?", is "Emi was." or "Anna was." more likely? The story keeps its pronoun.

Other pronouns have no question. Each is replaced by every candidate noun; the model's answer is the candidate with
which the story is most likely (Trinh & Le 2018, "A Simple Method for Commonsense Reasoning", full scoring). The noun
itself counts: that a lake is happy is improbable at the lake, not at the happiness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from data.batches.batch import IGNORED
from data.tokens.tokenizer import Tokenizer
from model.gpt import GPT
from training.evaluation.coreference import HEURISTICS, Accuracy, Pronoun, accuracy, pronouns, turns, without_questions
from training.loss import token_losses
from training.run_folder.log import table


@dataclass(frozen=True)
class Choice:
    """A pronoun with a text for each candidate noun: the part before the noun, and the part that begins with it."""

    pronoun: Pronoun
    texts: dict[int, tuple[str, str]]


def choice(story: dict[str, Any], pronoun: Pronoun) -> Choice:
    """Substitute each candidate for a pronoun of a story row, without its questions: they reveal the antecedent."""
    text, texts = without_questions(story, story["text"]), {}
    for referent in pronoun.candidates:
        name = story["names"][referent]
        name = name[0].upper() + name[1:] if text[pronoun.start].isupper() else name
        texts[referent] = text[: pronoun.start - 1], f" {name}{text[pronoun.end :]}"
    return Choice(pronoun, texts)


def answer_choice(story: dict[str, Any], turn: Pronoun, question: str) -> Choice:
    """Answer the question about a turn by each candidate, after the story without its own questions. question: as in
    the column `turn_questions`."""
    asked, _, answer = question.partition(" {}")
    before, texts = f"{without_questions(story, story['text'])} {asked}", {}
    for referent in turn.candidates:
        name = story["names"][referent]
        texts[referent] = before, f" {name[0].upper()}{name[1:]}{answer}"
    return Choice(turn, texts)


def log_probabilities(model: GPT, tokenizer: Tokenizer, texts: list[tuple[str, str]]) -> list[float | None]:
    """Return ln p(second part and end | first part) for each text; None if a text is longer than the context."""
    device = next(model.parameters()).device
    firsts, rests = (tokenizer.encode_batch([text[part] for text in texts]) for part in (0, 1))
    first, last = tokenizer.start_id, tokenizer.eos_id
    documents = [[first, *before, *after, last] for before, after in zip(firsts, rests, strict=True)]
    fitting = [number for number, document in enumerate(documents) if len(document) <= model.config.context + 1]
    fitting.sort(key=lambda number: len(documents[number]))  # reduces padding
    size = max(1, 8192 // (model.config.context + 1))  # texts per batch of about 8,192 tokens
    batches = [fitting[start : start + size] for start in range(0, len(fitting), size)]
    scores: list[float | None] = [None] * len(texts)
    for batch in tqdm(batches, desc="pronouns", leave=False, disable=None, delay=2, unit="batch"):
        rows = [torch.tensor(documents[number]) for number in batch]
        tokens = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_id).to(device)
        targets = tokens[:, 1:].clone()
        for row, number in enumerate(batch):
            targets[row, : len(firsts[number])] = IGNORED
            targets[row, len(documents[number]) - 1 :] = IGNORED  # padding
        losses = token_losses(model, (tokens[:, :-1],), targets).cpu().double()
        for number, nats in zip(batch, losses.sum(dim=1).tolist(), strict=True):
            scores[number] = -nats
    return scores


def score_pronouns(model: GPT, tokenizer: Tokenizer, choices: Iterable[Choice]) -> Accuracy | None:
    """Resolve pronouns of stories; None if there are no pronouns to score. The caller sets `eval()`.

    Candidates with the same English name (the plate that broke and the new one) count as one answer.
    """
    asked = list(choices)
    scores = iter(log_probabilities(model, tokenizer, [text for choice in asked for text in choice.texts.values()]))
    fitting = []
    right = 0
    for choice in asked:
        totals = {referent: next(scores) for referent in choice.texts}
        known = {referent: score for referent, score in totals.items() if score is not None}
        if len(known) == len(totals):
            fitting.append(choice)
            answer = max(known, key=lambda referent: known[referent])
            right += choice.texts[answer] == choice.texts[choice.pronoun.antecedent]
    if not fitting:
        return None
    return accuracy([choice.pronoun for choice in fitting], right, len(asked) - len(fitting))


def pronoun_report(
    model: GPT, tokenizer: Tokenizer, stories: Iterable[dict[str, Any]], split: str
) -> tuple[str, str, dict[str, float]]:
    """Score the pronouns of `stories` -> a log line, a table with the baselines, and accuracies in percent by name.
    Table and accuracies are empty if no pronoun is scored."""
    asked: dict[str, tuple[str, list[Choice]]] = {
        "pronouns": ("only meaning decides", []),
        "pronouns_contested": ("more than one noun agrees", []),
    }
    for story in stories:
        text = story["text"]
        questions = zip(turns(story, text), story["turn_questions"], strict=True)
        asked["pronouns"][1].extend(answer_choice(story, turn, question) for turn, question in questions if question)
        asked["pronouns_contested"][1].extend(choice(story, p) for p in pronouns(story, text) if p.contested)
    scores = {key: score_pronouns(model, tokenizer, questions) for key, (_, questions) in asked.items()}
    known = {key: score for key, score in scores.items() if score is not None}
    if not known:
        return f"{split}: no pronoun scored, no story fits model.context={model.config.context}", "", {}
    columns = list(known.values())
    lines = {"this model": [score.model for score in columns]}
    lines |= {guess: [score.guesses[guess] for score in columns] for guess in HEURISTICS}
    lines["any candidate"] = [score.chance for score in columns]
    report = table(
        [f"{split}: right antecedents", *(f"{asked[key][0]} ({score.count})" for key, score in known.items())],
        [[name, *(f"{percent:.1f} %" for percent in line)] for name, line in lines.items()],
    )
    left_out = sum(score.left_out for score in columns)
    if left_out:
        report += f"\n\nSkipped: {left_out} pronouns of stories longer than model.context={model.config.context}."
    accuracies = (f"{s.model:.1f} % where {asked[key][0]} (chance {s.chance:.1f} %)" for key, s in known.items())
    summary = f"{split}: right antecedents of pronouns: {', '.join(accuracies)}"
    return summary, report, {key: score.model for key, score in known.items()}
