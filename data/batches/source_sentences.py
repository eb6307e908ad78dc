"""Encode sentences to translate. This module does not import torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from data.tokens.tokenizer import Tokenizer


class SpecialIds(Protocol):
    """The ids of a tokenizer that batches contain besides those of the text."""

    @property
    def pad_id(self) -> int:
        """Fills short rows."""

    @property
    def bos_id(self) -> int:
        """The first token that a decoder reads."""

    @property
    def eos_id(self) -> int:
        """Ends a source and a target."""


def reversed_tag(tokenizer: SpecialIds) -> int:
    """Return the first token of a source that is to be translated in the other direction, from the target language to
    the source language (`data.both_directions`).

    It plays the part of the tag that names the target language in Johnson et al. 2017 (arXiv 1611.04558). No other
    source contains this token, so that sources of the forward direction need no tag.
    """
    return tokenizer.bos_id


def source_ids(tokenizer: Tokenizer, texts: Sequence[str], reverse: bool = False) -> list[list[int]]:
    """Encode sources without eos; `reverse`: tagged by `reversed_tag`, to be translated in the other direction."""
    rows = tokenizer.encode_batch(texts)
    return [[reversed_tag(tokenizer), *row] for row in rows] if reverse else rows
