"""The tokenizers that are trained here: SentencePiece, made lossless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from data.config import TokenizerConfig
from data.cpu_cores import workers
from data.tokens.tokenizer import LABELS, Tokenizer
from data.tokens.tokenizer_training import SPECIAL_NAMES, train_model

# SentencePiece writes spaces as U+2581 and drops tabs, NULs and final carriage returns from its training text. For a
# lossless round trip they are replaced by Unicode noncharacters (which no text should contain); noncharacters in the
# text are escaped by U+FDD0 and a digit.
ESCAPE = "\ufdd0"
STAND_INS = {"\t": "\ufdd1", "\0": "\ufdd2", "\r": "\ufdd3", "\u2581": "\ufdd4"}
ESCAPES = {character: f"{ESCAPE}{digit}" for digit, character in enumerate("\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4")}
_NEEDS_ESCAPE = re.compile("[\t\0\r\u2581\ufdd0-\ufdd4\ud800-\udfff]")
_TO_MODEL = str.maketrans(
    STAND_INS
    | ESCAPES
    | {chr(half): "\ufffd" for half in range(0xD800, 0xE000)}  # bytes of a prompt that are not UTF-8
)
_ESCAPED = re.compile("\ufdd0([0-4]?)|([\ufdd1-\ufdd4])")
_WORD = re.compile("\n|\u2581?[^\u2581\n]+|\u2581")  # no piece spans the boundary before a space or around a newline
_LONG_LINE = 4096  # characters; a longer line is split before a space, which no piece spans


def _escape(text: str) -> str:
    return text.translate(_TO_MODEL) if _NEEDS_ESCAPE.search(text) else text


def _unescape(text: str) -> str:
    def original(match: re.Match[str]) -> str:
        if match[2]:
            return "\t\0\r\u2581"[ord(match[2]) - 0xFDD1]
        return chr(0xFDD0 + int(match[1])) if match[1] else "\ufffd"

    return _ESCAPED.sub(original, text)


def segments(text: str) -> list[str]:
    """Split a text where no piece can span the boundary: after each newline and, in long lines, before a space.

    The encoding of a text is the concatenation of the encodings of its segments: the same tokens whole, line by line,
    or streamed. Short segments also keep the unigram search exact (over a megabyte its float32 scores lose precision).
    """
    parts = []
    for line in text.split("\n"):
        while len(line) > _LONG_LINE and (space := line.find(" ", _LONG_LINE)) >= 0:
            parts.append(line[:space])
            line = line[space:]
        parts.append(line + "\n")
    parts[-1] = parts[-1][:-1]
    return parts if parts[-1] else parts[:-1]


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model trained here. Ids: 0 padding, 1 unknown, 2 bos, 3 eos, then the pieces.

    With `identity` normalisation `decode(encode(text)) == text` for every text whose characters are in the vocabulary,
    and with byte fallback for any text: newlines, tabs, leading and repeated spaces are kept.
    """

    suffix = ".model"
    escape = ESCAPE
    pad_id, unk_id, bos_id, eos_id = 0, 1, 2, 3
    start_id = eos_id  # a text ends where the next one begins
    special_ids = frozenset((0, 1, 2, 3))

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        if not model:
            raise ValueError("an empty SentencePiece model")  # which SentencePiece itself would accept
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._processor.id_to_piece(list(range(self.vocab_size)))  # raises ValueError for one that is not UTF-8

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> SentencePieceTokenizer:
        """Train on texts (of the training split only). Raises DataError if the vocabulary does not fit the text."""
        return cls(train_model((_escape(text) for text in texts), config))

    @property
    def vocab_size(self) -> int:
        """Return the vocabulary size, including special tokens."""
        return int(self._processor.vocab_size())

    @property
    def spellings(self) -> list[str]:
        """Return how SentencePiece spells each token, by id: distinct, spaces as ▁, bytes as <0xE3>."""
        return [self._processor.id_to_piece(token) for token in range(self.vocab_size)]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without bos and eos."""
        ids: list[int] = []
        for part in segments(_escape(text)):
            ids += self._processor.encode(part, out_type=int)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many texts, on all cores; equal to `[encode(text) for text in texts]`."""
        parts, counts = [], []
        for text in texts:
            cut = segments(_escape(text))
            parts += cut
            counts.append(len(cut))
        encoded = self._processor.encode(parts, out_type=int, num_threads=workers()) if parts else []
        if len(encoded) == len(texts) and all(count == 1 for count in counts):
            return encoded
        rows, first = [], 0
        for count in counts:
            rows.append([token for part in encoded[first : first + count] for token in part])
            first += count
        return rows

    def best_segmentations(self, texts: Sequence[str], count: int) -> list[list[tuple[list[int], float]]]:
        """Return up to `count` segmentations of each text and their log-probabilities, best first (unigram only)."""
        segmentations = self._processor.NBestEncode([_escape(text) for text in texts], nbest_size=count, out_type=int)
        return [[(ids, sum(map(self._scores.__getitem__, ids))) for ids in best] for best in segmentations]

    def text_pieces(self) -> dict[str, int]:
        """Return the ids of all pieces that are text, by their spelling inside the model, the best first (BPE: in the
        order in which they are merged)."""
        tokens = [
            token for token in range(len(self.special_ids), self.vocab_size) if not self._processor.is_byte(token)
        ]
        tokens.sort(key=lambda token: -self._scores[token])
        return {self._processor.id_to_piece(token): token for token in tokens}

    def character_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Encode each character by itself -> the token ids of each word, and the number of words of each text. No piece
        spans the boundary between two words."""
        words, counts = [], []
        ids: dict[str, list[int]] = {}
        for text in texts:
            text_words = _WORD.findall(self._processor.normalize(_escape(text)))
            counts.append(len(text_words))
            for word in text_words:
                for character in word:
                    if character not in ids:
                        ids[character] = self._processor.encode(character, out_type=int)
                words.append([token for character in word for token in ids[character]])
        return words, counts

    @cached_property
    def _scores(self) -> list[float]:
        """Return the log-probability of each piece."""
        return [self._processor.get_score(token) for token in range(self.vocab_size)]

    def piece_bytes(self, token: int) -> bytes:
        """Return the UTF-8 bytes of a token, with the model's escapes; empty for padding, bos and eos."""
        return self._bytes[token]

    @cached_property
    def _bytes(self) -> list[bytes]:
        names = [self._processor.id_to_piece(token) for token in range(4, self.vocab_size)]
        pieces = [
            bytes([int(name[3:5], 16)]) if self._processor.is_byte(token) else name.replace("\u2581", " ").encode()
            for token, name in enumerate(names, start=4)
        ]
        return [b"", "\ufffd".encode(), b"", b"", *pieces]

    def unescape(self, text: str) -> str:
        """Return the text that decoded bytes stand for: tabs, ▁ and noncharacters instead of their stand-ins."""
        return _unescape(text)

    @cached_property
    def byte_lengths(self) -> NDArray[np.int64]:
        """Return the number of UTF-8 bytes of each token's text, [vocab_size] int64; 0 for padding, bos and eos."""
        lengths = [
            1 if self._processor.is_byte(token) else len(_unescape(self.piece_bytes(token).decode()).encode())
            for token in range(self.vocab_size)
        ]
        return np.array(lengths, dtype=np.int64)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return display names of tokens: spaces as ▁, control characters as symbols (↵ ⇥), bytes as <0xE3>."""
        return [self._names[token] for token in ids]

    @cached_property
    def _names(self) -> list[str]:
        names = [
            SPECIAL_NAMES[token] if token in self.special_ids else _unescape(self._processor.id_to_piece(token))
            for token in range(self.vocab_size)
        ]
        return ["".join(LABELS.get(character, character) for character in name) for name in names]

    def spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the token ids and their spans [start, end) in characters; all bytes of a character have its span."""
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        start = 0
        for part in segments(_escape(text)):
            encoded = self._processor.encode(part, return_type="offset_mapping")
            offsets = encoded["offsets"]
            # SentencePiece gives all bytes of a character except the last an empty span before it.
            for index in range(len(offsets) - 2, -1, -1):
                if offsets[index][0] == offsets[index][1] and self._processor.is_byte(encoded["ids"][index]):
                    offsets[index] = offsets[index + 1]
            ids += encoded["ids"]
            spans += [(begin + start, end + start) for begin, end in offsets]
            start += len(part)
        if _NEEDS_ESCAPE.search(text):
            widths = [len(character.translate(_TO_MODEL)) for character in text]
            position = np.append(np.repeat(np.arange(len(text)), widths), len(text))
            # An exclusive end: one more than the position of the last character inside.
            spans = [(int(position[a]), int(position[b - 1]) + 1 if b > a else int(position[b])) for a, b in spans]
        return ids, spans
