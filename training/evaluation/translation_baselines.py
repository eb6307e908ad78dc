"""Score translation baselines that need no model."""

from __future__ import annotations

from collections import Counter

from tqdm import tqdm

from data.token_cache import PreparedPairs
from generation.neighbours.translation_memory import TranslationMemory
from training.evaluation.translation_scores import Scores, score


def baselines(prepared: PreparedPairs, sources: list[str], references: list[str]) -> dict[str, Scores]:
    """Return the scores of `baseline_translations`."""
    found = baseline_translations(prepared, sources)
    return {name: score(hypotheses, references) for name, hypotheses in found.items()}


def baseline_translations(prepared: PreparedPairs, sources: list[str], reverse: bool = False) -> dict[str, list[str]]:
    """Return translations from the training pairs in a translation memory, by name of the baseline. reverse: as in
    TranslationConfig."""
    train = prepared.rows("train")
    memory = TranslationMemory.of_rows(train, reverse)
    which = "training sentence" if len(memory) == len(train) else f"of {len(memory):,} training sentences"
    bar = tqdm(sources, desc="translation memory", leave=False, disable=None, delay=2)
    nearest = [memory.translate(source) for source in bar]
    constant = [constant_sentence(memory.targets)] * len(sources)
    return {f"nearest {which}": nearest, "most frequent sentence": constant}


def constant_sentence(targets: list[str]) -> str:
    """Return the most frequent training target: the output of a model that ignores its input."""
    return Counter(targets).most_common(1)[0][0]
