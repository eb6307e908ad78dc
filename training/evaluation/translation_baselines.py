"""Score translation baselines that need no model."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from tqdm import tqdm

from data.prepare import PreparedPairs
from training.evaluation.translation_scores import Scores, score

REMEMBERED = 200_000
"""Maximum number of training pairs in the translation memory: 2 ms per sentence on one core."""


def baselines(prepared: PreparedPairs, sources: list[str], references: list[str]) -> dict[str, Scores]:
    """Return the scores of `baseline_translations`."""
    found = baseline_translations(prepared, sources)
    return {name: score(hypotheses, references) for name, hypotheses in found.items()}


def baseline_translations(prepared: PreparedPairs, sources: list[str]) -> dict[str, list[str]]:
    """Return translations from the training split, limited to `REMEMBERED` evenly spaced pairs: by name of the
    baseline."""
    train = prepared.rows("train")
    kept = train.select(range(0, len(train), -(-len(train) // REMEMBERED)))
    targets = kept["target"][:]
    memory = TranslationMemory(kept["source"][:], targets)
    which = "training sentence" if len(kept) == len(train) else f"of {len(kept):,} training sentences"
    bar = tqdm(sources, desc="translation memory", leave=False, disable=None, delay=2)
    nearest = [memory.translate(source) for source in bar]
    return {f"nearest {which}": nearest, "most frequent sentence": [constant_sentence(targets)] * len(sources)}


class TranslationMemory:
    """Returns the translation of the most similar training sentence: Jaccard similarity of lower-cased word sets."""

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
        """Return the target of the nearest training source; ties go to the first."""
        query = words(source)
        rows = [self.postings[word] for word in query if word in self.postings]
        shared = np.bincount(np.concatenate(rows), minlength=len(self.sizes)) if rows else np.zeros(len(self.sizes))
        return self.targets[int(np.argmax(shared / (self.sizes + len(query) - shared)))]


def words(sentence: str) -> set[str]:
    """Return the lower-cased words without punctuation."""
    return {word for raw in sentence.lower().split() if (word := raw.strip(".,!?;:\"'()"))} or {sentence}


def constant_sentence(targets: list[str]) -> str:
    """Return the most frequent training target: the output of a model that ignores its input."""
    return Counter(targets).most_common(1)[0][0]
