"""Define the examples to record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from attention_maps.record.recording import Antecedents, Link

Pieces = Callable[[list[int]], list[str]]
"""Converts token ids to readable pieces, one per id."""


class Tokenizer(Protocol):
    """The methods of a tokenizer that `Example` uses."""

    @property
    def bos_id(self) -> int:
        """First token of every target."""

    @property
    def eos_id(self) -> int:
        """Last token of every source and target."""

    def pieces(self, ids: list[int]) -> list[str]:
        """Convert token ids to readable pieces, one per id."""


@dataclass(frozen=True)
class Example:
    """One text or translation pair to record: token ids and the pieces that label the maps."""

    target_ids: Sequence[int]
    """Decoder input."""

    target_pieces: Sequence[str]

    next_ids: Sequence[int]
    """Gold next token at each position; may be one shorter than `target_ids` (at the end of a plain text)."""

    next_pieces: Sequence[str]

    source_ids: Sequence[int] | None = None
    """Encoder input; None for a GPT."""

    source_pieces: Sequence[str] | None = None

    name: str = ""
    """Display name: `probe 1`, `valid 3`."""

    links: Sequence[Link] | None = None
    """Gold word alignment, if available: positions in source and `next_ids`."""

    antecedents: Antecedents | None = None
    """Gold antecedents of pronouns, if available."""

    own: bool = False
    """Whether the model wrote the text itself, so that its loss says nothing about held-out text."""

    @classmethod
    def text(
        cls, ids: Sequence[int], tokenizer: Tokenizer, name: str = "", antecedents: Antecedents | None = None
    ) -> Example:
        """Return a text for a GPT: each token predicts the next token."""
        reads = list(ids)
        pieces = tokenizer.pieces(reads)
        return cls(reads, pieces, reads[1:], pieces[1:], name=name, antecedents=antecedents)

    @classmethod
    def pair(
        cls,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        name: str = "",
        links: Sequence[Link] | None = None,
        antecedents: Antecedents | None = None,
        own: bool = False,
    ) -> Example:
        """Return a translation pair as in training: the encoder reads source + eos, the decoder reads bos + target and
        predicts target + eos. `source_ids` and `target_ids` exclude bos and eos."""
        source = [*source_ids, source_tokenizer.eos_id]
        reads, predicts = [target_tokenizer.bos_id, *target_ids], [*target_ids, target_tokenizer.eos_id]
        labels = target_tokenizer.pieces
        texts = reads, labels(reads), predicts, labels(predicts), source, source_tokenizer.pieces(source)
        return cls(*texts, name, links, antecedents, own)

    def cut(self, length: int) -> Example:
        """Truncate each side to the first `length` tokens."""
        sides = ("target_ids", "target_pieces", "next_ids", "next_pieces", "source_ids", "source_pieces")
        shorter: dict[str, Any] = {side: ids[:length] for side in sides if (ids := getattr(self, side)) is not None}
        links = None if self.links is None else [link for link in self.links if max(link) < length]
        antecedents = None if self.antecedents is None else self.antecedents.cut(length)
        return replace(self, **shorter, links=links, antecedents=antecedents)
