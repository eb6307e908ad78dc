"""Find the characters that a tokenizer loses: those that its tokens do not decode to.

Bits per byte compare models with different tokenizers only if each model is charged for the whole text. A model that
predicts one <unk> has not predicted the characters behind it, and one that predicts the text after normalisation has
not predicted what was normalised. As in the adjusted perplexity of Ueberla (1994, "Analysing a simple language model"),
which spreads the probability of the unknown word evenly over the words that it stands for, a uniform model spells the
lost characters: every byte costs log2(256) = 8 bits, and <unk> itself costs what the model gives it. (Mielke 2019, "Can
you compare perplexity across different segmentations?", on why the total over the same text is what can be compared;
Gao et al. 2021, "The Pile", on bits per UTF-8 byte.)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.tokens.tokenizer import Tokenizer

Ints = NDArray[np.int64]

BITS = 8
"""Charge for each lost byte, in bits."""


class Loss(NamedTuple):
    """Where tokens and text differ."""

    token: int
    """Its number; the last one, if several tokens stand for the same characters; -1 if the text has no tokens."""
    difference: int
    """UTF-8 bytes of the text minus those of the tokens."""
    lost: int
    """Lost bytes of the text."""
    characters: int
    """Lost characters of the text."""
    unknown: bool
    """Whether <unk> stands for them."""


@dataclass(frozen=True)
class Losses:
    """Where the tokens of a split and its text differ, in the order of the text."""

    rows: Ints
    """Pairs: the number of the pair. Running text: 0."""
    positions: Ints
    """Number of the token in its row."""
    differences: Ints
    """UTF-8 bytes of the text minus those of the tokens."""
    lost: Ints
    """Lost bytes of the text."""

    @classmethod
    def open(cls, path: Path) -> Losses:
        """Read the file of a LossWriter; without a file, nothing is lost."""
        return cls(*(np.load(path) if path.exists() else np.zeros((4, 0), dtype=np.int64)))


class LossWriter:
    """Collects what a tokenizer loses of a split."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._found = array("q")  # row, position, difference, lost of each
        self.characters = 0
        self.lost_characters = 0
        self.normalised = False
        """Whether characters that are not behind an <unk> are lost."""

    def add(self, text: str, ids: Sequence[int], row: int, first: int) -> None:
        """Add a text with its tokens, which begin at position `first` of a row."""
        self.characters += len(text)
        for loss in text_losses(self._tokenizer, text, ids):
            self._found.extend((row, first + loss.token, loss.difference, loss.lost))
            self.lost_characters += loss.characters
            self.normalised |= loss.characters > 0 and not loss.unknown

    def losses(self) -> Losses:
        """Return what was found so far."""
        return Losses(*np.array(self._found, dtype=np.int64).reshape(-1, 4).T)

    def save(self, path: Path) -> None:
        """Write a file, unless tokens and text agree."""
        if self._found:
            losses = self.losses()
            np.save(path, np.stack((losses.rows, losses.positions, losses.differences, losses.lost)))


def text_losses(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Iterator[Loss]:
    """Yield where the tokens of a text do not stand for exactly its characters. ids: `tokenizer.encode(text)`."""
    size = len(text.encode())
    if tokenizer.unk_id not in ids and tokenizer.decode(ids) == text and tokenizer.byte_lengths[ids].sum() == size:
        return
    if not ids:  # all of it is lost
        yield Loss(-1, size, size, len(text), False)
        return
    _, spans = tokenizer.spans(text)
    texts = tokenizer.texts
    first = start = 0  # of the group of tokens that stand for the same characters
    for token, (begin, end) in enumerate(spans):
        following = spans[token + 1] if token + 1 < len(spans) else None
        if following is None:
            end = len(text)
        elif following[0] < end or following[0] == following[1] or begin == end:
            continue
        piece = text[start:end]
        if first < token or piece != texts[ids[token]] or ids[token] == tokenizer.unk_id:
            loss = group_loss(tokenizer, token, piece, ids[first : token + 1])
            if loss.difference or loss.lost:
                yield loss
        first, start = token + 1, end


def group_loss(tokenizer: Tokenizer, last: int, piece: str, group: Sequence[int]) -> Loss:
    """Compare characters with the tokens that stand for them."""
    size = len(piece.encode())
    difference = size - sum(int(tokenizer.byte_lengths[token]) for token in group)
    known = [token for token in group if token != tokenizer.unk_id]
    if not known:
        return Loss(last, difference, size, len(piece), True)
    decoded = tokenizer.unescape(spelled(tokenizer, known).decode("utf-8", errors="replace"))
    blocks = SequenceMatcher(None, piece, decoded, autojunk=False).get_matching_blocks()
    same = "".join(piece[block.a : block.a + block.size] for block in blocks)
    return Loss(last, difference, size - len(same.encode()), len(piece) - len(same), len(known) < len(group))


def spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> bytes:
    """Return the bytes of tokens; a special token that stands in a text, such as <|endoftext|>, is its name."""
    return b"".join(
        tokenizer.spellings[token].encode() if token in tokenizer.special_ids else tokenizer.piece_bytes(token)
        for token in ids
    )
