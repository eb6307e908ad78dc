"""Scores of translations, and the baselines that a model has to beat."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scores:
    """Corpus scores of one set of translations, all in percent."""

    bleu: float
    """BLEU over characters (sacreBLEU `tok:char`): Japanese has no spaces, and other tokenizers need a dictionary."""
    chrf: float
    """chrF2."""
    exact: float
    """Share of translations equal to the reference, character by character."""


def score(hypotheses: list[str], references: list[str]) -> Scores:
    """Score translations against one reference each."""
    from sacrebleu.metrics import BLEU, CHRF  # 6 MB, for translations alone

    exact = sum(h == r for h, r in zip(hypotheses, references, strict=True)) / max(1, len(references))
    return Scores(
        BLEU(tokenize="char").corpus_score(hypotheses, [references]).score,
        CHRF().corpus_score(hypotheses, [references]).score,
        100 * exact,
    )


def signatures() -> str:
    """The sacreBLEU signatures, without which the numbers mean nothing."""
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(tokenize="char"), CHRF()
    bleu.corpus_score(["あ"], [["あ"]])
    chrf.corpus_score(["あ"], [["あ"]])
    return f"BLEU {bleu.get_signature()} · chrF {chrf.get_signature()}"


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
