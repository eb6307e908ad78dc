"""The tokenizer of one side of a Marian model: SentencePiece, and a table from its pieces to the ids of the model."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import sentencepiece

from data.cpu_cores import workers
from data.tokens.pretrained_tokenizer import BYTE, PretrainedTokenizer, without_surrogates

_LANGUAGE = re.compile(r">>[^<>]*<<")
"""A tag at the start of a source that names the target language, in models of several languages."""


class MarianTokenizer(PretrainedTokenizer):
    """A SentencePiece model whose pieces have the ids of `vocab.json`, which both sides may share: a piece that is not
    in it is unknown, and a character that only the other side's model knows has an id all the same."""

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=base64.b64decode(self.content["sentencepiece"])
        )
        self._processor.id_to_piece(list(range(self._processor.vocab_size())))  # raises ValueError for one not in UTF-8
        self._ids = {piece: token for piece, token in self.vocabulary.items() if token not in self.special_ids}

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Return the ids of all pieces, as in `vocab.json`."""
        return self.content["vocabulary"]

    @property
    def sentencepiece_model(self) -> bytes:
        """Return the SentencePiece model, as in `source.spm`."""
        return base64.b64decode(self.content["sentencepiece"])

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without eos."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many texts, on all cores."""
        tagged = [self._without_tag(text) for text in without_surrogates(texts)]
        rest = [text for _, text in tagged]
        split = self._processor.encode(rest, out_type=str, num_threads=workers()) if rest else []
        return [[*tag, *map(self._id, pieces)] for (tag, _), pieces in zip(tagged, split, strict=True)]

    def spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the token ids and their spans [start, end) in characters; all bytes of a character have its span."""
        (text,) = without_surrogates([text])
        tag, rest = self._without_tag(text)
        start = len(text) - len(rest)
        encoded = self._processor.encode(rest, return_type="offset_mapping")
        spans = [(begin + start, end + start) for begin, end in encoded["offsets"]]
        return [*tag, *map(self._id, encoded["pieces"])], [*[(0, start)] * len(tag), *spans]

    def _id(self, piece: str) -> int:
        return self._ids.get(piece, self.unk_id)

    def _without_tag(self, text: str) -> tuple[list[int], str]:
        """Split a tag of the target language off the start of a text -> its id, if there is one, and the rest."""
        match = _LANGUAGE.match(text)
        return ([self._id(match[0])], text[match.end() :]) if match else ([], text)

    def decode(self, ids: Iterable[int]) -> str:
        """Decode a whole translation, without the space that SentencePiece puts before its first word."""
        return super().decode(ids).strip()

    @cached_property
    def spellings(self) -> list[str]:
        """Return the piece of each id; of rows without a piece, `<unused 58101>`."""
        names = [f"<unused {token}>" for token in range(self.vocab_size)]
        for piece, token in self.vocabulary.items():
            names[token] = piece
        return names

    def _bytes_of(self) -> list[bytes]:
        return [
            bytes([int(byte[1], 16)]) if (byte := BYTE.fullmatch(piece)) else piece.replace("▁", " ").encode()
            for piece in self.spellings
        ]
