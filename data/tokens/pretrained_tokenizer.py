"""Tokenizers of other people's models: one JSON file in a run, with what their library needs and the special ids."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.tokens.tokenizer import LABELS, Tokenizer

ROLES = ("pad_id", "unk_id", "bos_id", "eos_id", "start_id")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
"""The name of a token that is one byte, in vocabularies of SentencePiece."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMES = str.maketrans(
    {" ": "▁", **LABELS} | {chr(0xDC00 + byte): f"<0x{byte:02X}>" for byte in range(0x80, 0x100)}  # not UTF-8
)


class PretrainedTokenizer(Tokenizer):
    """The vocabulary of a model that was trained elsewhere, with the ids that it was trained with.

    Its vocabulary has as many ids as the model's table has rows; rows without a token are special, so that they are
    never written. Text is not always lossless: the library may normalise it.
    """

    suffix = ".json"

    def __init__(self, model: bytes) -> None:
        """model: written by `packed`. Raises ValueError if it is damaged."""
        super().__init__(model)
        self.content = json.loads(model)
        try:
            for role in ROLES:
                setattr(self, role, int(self.content[role]))
            self.special_ids = frozenset(map(int, self.content["special_ids"]))
            self._size = int(self.content["vocab_size"])
        except (KeyError, TypeError) as error:
            raise ValueError("not the tokenizer of an imported model") from error
        outside = max(self.pad_id, self.bos_id, self.eos_id, self.start_id, *self.special_ids) >= self._size
        if outside or min(self.pad_id, self.bos_id, self.eos_id, self.start_id, *self.special_ids) < 0:
            raise ValueError("a special id is outside the vocabulary")

    @staticmethod
    def packed(vocab_size: int, ids: Mapping[str, int], special_ids: Iterable[int], **content: Any) -> bytes:
        """Return the file of a tokenizer: the ids of all ROLES, the special ids, and what its class needs."""
        fields = {"vocab_size": vocab_size, **{role: ids[role] for role in ROLES}, "special_ids": sorted(special_ids)}
        return json.dumps(fields | content, ensure_ascii=False).encode()

    @property
    def vocab_size(self) -> int:
        """Return the number of rows of the model's table."""
        return self._size

    @abstractmethod
    def _bytes_of(self) -> list[bytes]:
        """Return the bytes of every id that is text; b"" for the others."""

    @cached_property
    def _bytes(self) -> list[bytes]:
        pieces = [b"" if token in self.special_ids else raw for token, raw in enumerate(self._bytes_of())]
        if self.unk_id >= 0:
            pieces[self.unk_id] = "\ufffd".encode()
        return pieces

    def piece_bytes(self, token: int) -> bytes:
        """Return the UTF-8 bytes of a token; empty for special tokens but <unk>."""
        return self._bytes[token]

    @cached_property
    def byte_lengths(self) -> NDArray[np.int64]:
        """Return the number of UTF-8 bytes of each token's text, [vocab_size] int64; 0 for special tokens but <unk>."""
        return np.array(list(map(len, self._bytes)), dtype=np.int64)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return display names of tokens: spaces as ▁, control characters as symbols (↵ ⇥), bytes as <0xE3>."""
        return [self._names[token] for token in ids]

    @cached_property
    def _names(self) -> list[str]:
        return [
            self.spellings[token]
            if token in self.special_ids
            else raw.decode("utf-8", errors="surrogateescape").translate(_NAMES)
            for token, raw in enumerate(self._bytes)
        ]

    def text_pieces(self) -> dict[str, int]:
        """Return the ids of all tokens that are text by their display name."""
        named = enumerate(self._names)
        return {name: token for token, name in named if token not in self.special_ids and name.strip("▁")}


def without_surrogates(texts: Sequence[str]) -> list[str]:
    """Return texts with U+FFFD for bytes of a prompt that are not UTF-8, which libraries reject."""
    return [_SURROGATE.sub("\ufffd", text) for text in texts]
