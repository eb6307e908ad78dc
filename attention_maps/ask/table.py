"""A map as comma-separated values (RFC 4180)."""

from __future__ import annotations

import csv
import io

from attention_maps.ask.questions import Question


def table(question: Question) -> str:
    """A header with the keys, then a line for each query: its token and its weights, in digits enough for float16."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([question.rows, *question.keys.pieces])
    for piece, weights in zip(question.queries.pieces, question.matrix, strict=True):
        writer.writerow([piece, *(f"{weight:.5g}" for weight in weights)])
    return text.getvalue()
