"""Which noun a language model takes a pronoun for, on the embedded stories, where the answer is known.

The pronoun is replaced by each noun that it could mean by its form, and the model takes the one that makes the whole story most
probable (Trinh & Le 2018, "A Simple Method for Commonsense Reasoning", full scoring). Only contested pronouns count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from tqdm import tqdm

from data.primer.coreference import HEURISTICS, Pronoun, pronouns, share
from data.tokenizer import Tokenizer
from model.gpt import GPT

BATCH = 64
"""Stories scored at once."""


@dataclass(frozen=True)
class PronounScores:
    """How many contested pronouns are understood, in percent."""

    count: int
    model: float
    guesses: dict[str, float]
    """The same for guesses that need no understanding."""
    chance: float
    """Drawing one of the candidates."""


@dataclass(frozen=True)
class Choice:
    """One contested pronoun, and the story with each candidate in its place."""

    pronoun: Pronoun
    texts: dict[int, str]


def choices(story: dict[str, Any]) -> list[Choice]:
    """The contested pronouns of a row of stories."""
    text, found = story["text"], []
    for pronoun in pronouns(story, text):
        if pronoun.contested:
            at_start = text[pronoun.start].isupper()
            texts = {}
            for referent in pronoun.candidates:
                name = story["names"][referent]
                name = name[0].upper() + name[1:] if at_start else name
                texts[referent] = text[: pronoun.start] + name + text[pronoun.end :]
            found.append(Choice(pronoun, texts))
    return found


@torch.no_grad()
def log_probabilities(model: GPT, tokenizer: Tokenizer, texts: list[str]) -> list[float]:
    """Natural log of the probability of each text as a whole document; -inf for one longer than the model's context."""
    device = next(model.parameters()).device
    documents = [[tokenizer.eos_id, *ids, tokenizer.eos_id] for ids in tokenizer.encode_batch(texts)]
    order = sorted(range(len(texts)), key=lambda number: len(documents[number]))  # little padding
    order = [number for number in order if len(documents[number]) <= model.config.context + 1]
    scores = [float("-inf")] * len(texts)
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    for batch in tqdm(batches, desc="pronouns", leave=False, disable=None, delay=2, unit="batch"):
        longest = len(documents[batch[-1]])
        padded = [documents[number] + [tokenizer.pad_id] * (longest - len(documents[number])) for number in batch]
        tokens = torch.tensor(padded, device=device)
        loss = F.cross_entropy(
            model(tokens[:, :-1]).float().flatten(0, 1),
            tokens[:, 1:].flatten(),
            ignore_index=tokenizer.pad_id,
            reduction="none",
        )
        for number, nats in zip(batch, loss.view(len(batch), -1).double().sum(dim=1).tolist(), strict=True):
            scores[number] = -nats
    return scores


def score_pronouns(model: GPT, tokenizer: Tokenizer, stories: Iterable[dict[str, Any]]) -> PronounScores | None:
    """Resolve every contested pronoun of the stories (rows of the embedded corpus); None where there is none.

    The model is used as it is: the caller puts it into `eval()`.
    """
    asked = [choice for story in stories for choice in choices(story)]
    if not asked:
        return None
    scores = iter(log_probabilities(model, tokenizer, [text for choice in asked for text in choice.texts.values()]))
    right = 0
    for choice in asked:
        ranked = {referent: next(scores) for referent in choice.texts}
        right += max(ranked, key=lambda referent: ranked[referent]) == choice.pronoun.antecedent
    guesses = {name: sum(share(choice.pronoun, rank) for choice in asked) for name, rank in HEURISTICS.items()}
    chance = sum(1 / len(choice.texts) for choice in asked)
    percent = 100 / len(asked)
    return PronounScores(
        len(asked), percent * right, {name: percent * hits for name, hits in guesses.items()}, percent * chance
    )
