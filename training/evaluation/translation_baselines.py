"""Translations that need no model, whose scores a model has to beat."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from tqdm import tqdm

from data.prepare import PreparedPairs
from training.evaluation.translation_scores import Scores, score

REMEMBERED = 200_000
"""Training pairs among which the translation memory looks for the nearest: 2 ms for each sentence on one core."""


def baselines(prepared: PreparedPairs, sources: list[str], references: list[str]) -> dict[str, Scores]:
    """Scores of answers that need no learning, from the training split: `REMEMBERED` of its pairs, evenly spread, if it
    has more."""
    train = prepared.rows("train")
    kept = train.select(range(0, len(train), -(-len(train) // REMEMBERED)))
    targets = kept["target"][:]
    memory = TranslationMemory(kept["source"][:], targets)
    which = "training sentence" if len(kept) == len(train) else f"of {len(kept):,} training sentences"
    nearest = [
        memory.translate(s) for s in tqdm(sources, desc="translation memory", leave=False, disable=None, delay=2)
    ]
    return {
        f"nearest {which}": score(nearest, references),
        "most frequent sentence": score([constant_sentence(targets)] * len(references), references),
    }


class TranslationMemory:
    """Answers with the translation of the most similar training sentence: Jaccard similarity over sets of lower-cased
    words."""

    def __init__(self, sources: list[str], targets: list[str]) -> None:
        self.targets = targets
        postings: defaultdict[str, list[int]] = defaultdict(list)
        sizes = []
        for row, source in enumerate(sources):
            found = words(source)
            sizes.append(len(found))
            for word in found:
                postings[word].append(row)
        self.postings = {word: np.array(rows, dtype=np.int64) for word, rows in postings.items()}
        self.sizes = np.array(sizes)

    def translate(self, source: str) -> str:
        """The target of the nearest training source, the first one of equals."""
        query = words(source)
        rows = [self.postings[word] for word in query if word in self.postings]
        shared = np.bincount(np.concatenate(rows), minlength=len(self.sizes)) if rows else np.zeros(len(self.sizes))
        return self.targets[int(np.argmax(shared / (self.sizes + len(query) - shared)))]


def words(sentence: str) -> set[str]:
    """Lower-cased words, punctuation stripped."""
    return {word for raw in sentence.lower().split() if (word := raw.strip(".,!?;:\"'()"))} or {sentence}


def constant_sentence(targets: list[str]) -> str:
    """The most frequent training target: what a model says that ignores its input."""
    return Counter(targets).most_common(1)[0][0]
