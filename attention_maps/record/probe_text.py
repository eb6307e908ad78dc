"""Texts of `attention.probes`, in which a pronoun may name its antecedent: `Emi came because she{Emi} was kind.`"""

from __future__ import annotations

import re

MARKED = re.compile(r"(\w+)\{([^{}]+)\}")
"""A word and its antecedent."""


def parse_probe(marked: str) -> tuple[str, list[list[int]]]:
    """Return the text without marks, and [start, end, antecedent start, antecedent end] in characters of each marked
    word. The antecedent is its last occurrence before; braces without one belong to the text."""
    text, spans, done = "", [], 0
    for match in MARKED.finditer(marked):
        before = text + marked[done : match.start()]
        antecedent = list(re.finditer(rf"\b{re.escape(match[2])}\b", before))
        if antecedent:
            text = before + match[1]
            done = match.end()
            spans.append([len(before), len(text), *antecedent[-1].span()])
    return text + marked[done:], spans
