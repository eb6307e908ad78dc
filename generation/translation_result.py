"""The translation of a sentence, and its maximum length. This module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from data.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class Translation:
    """One hypothesis of one sentence."""

    text: str
    score: float
    """Log-probability in nats / length ** length_penalty; higher is better."""
    tokens: list[int] = field(default_factory=list)
    """Target ids without eos; encoding the text again may give different ids."""
    cut: bool = False
    """Whether it reached its maximal length before its end."""


Numbered = list[tuple[int, list[Translation]]]
"""Indices of sentences with their translations, best first."""


def longest_target(source_length: int, context: int) -> int:
    """Return the maximal length of a translation: three times the source length plus a constant, within the context.

    The limit is per sentence, so that a translation does not depend on the other sentences of its batch.
    """
    return min(3 * source_length + 10, context - 1)


def decoded(tokens: list[int], score: float, tokenizer: Tokenizer, limit: int) -> Translation:
    """Decode a hypothesis of at most `limit` tokens to text, always on a single line."""
    return Translation(one_line(tokenizer.decode(tokens)), score, list(tokens), cut=len(tokens) == limit)


def one_line(text: str) -> str:
    """Return a text with spaces instead of its line breaks, as translations are written and compared."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def distinct(hypotheses: list[Translation]) -> list[Translation]:
    """Return the best translation of each text, best first: one text can be divided into tokens in several ways."""
    best: dict[str, Translation] = {}
    for hypothesis in hypotheses:
        best.setdefault(hypothesis.text, hypothesis)
    return list(best.values())


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def cell(text: str) -> str:
    """Return a text as a cell of tab-separated values, with backslash escapes for tabs, line breaks and
    backslashes."""
    return text.translate(_ESCAPES)
