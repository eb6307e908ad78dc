"""A tokenizer of the library `tokenizers`: the `tokenizer.json` of GPT-2 and most other models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from configs.errors import UserError
from data.tokens.pretrained_tokenizer import BYTE, PretrainedTokenizer, without_surrogates

TEXT_DECODERS = {"Sequence", "Metaspace", "ByteFallback", "Fuse", "Replace", "Strip"}
"""Decoders that join the names of tokens, with ▁ for a space and <0xE3> for a byte."""


class HuggingFaceTokenizer(PretrainedTokenizer):
    """A `tokenizer.json` in memory. Names of special tokens in a text, such as <|endoftext|>, are those tokens."""

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        try:
            self._tokenizer = library().Tokenizer.from_str(json.dumps(self.content["tokenizer"]))
        except UserError:
            raise
        except Exception as error:  # the library raises this class itself
            raise ValueError(str(error)) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.post_processor = library().processors.Sequence([])  # others trim the spaces off spans

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without bos and eos."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many texts, on all cores."""
        encodings = self._tokenizer.encode_batch_fast(without_surrogates(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the token ids and their spans [start, end) in characters; all bytes of a character have its span."""
        encoding = self._tokenizer.encode(*without_surrogates([text]), add_special_tokens=False)
        return encoding.ids, encoding.offsets

    @cached_property
    def spellings(self) -> list[str]:
        """Return how the library spells each token, by id; of rows without a token, `<unused 50277>`."""
        named = map(self._tokenizer.id_to_token, range(self.vocab_size))
        return [name or f"<unused {token}>" for token, name in enumerate(named)]

    def _bytes_of(self) -> list[bytes]:
        decoder, added = self.content["tokenizer"]["decoder"], self._tokenizer.get_added_tokens_decoder()
        kinds = {step["type"] for step in steps(decoder)}
        replaced = [
            (step["pattern"]["String"], step["content"]) for step in steps(decoder) if step["type"] == "Replace"
        ]

        def of(token: int, name: str) -> bytes:
            if token in added:
                return name.encode()
            if "ByteLevel" in kinds:
                return b"".join(BYTES.get(character, character.encode()) for character in name)
            if byte := BYTE.fullmatch(name):
                return bytes([int(byte[1], 16)])
            for pattern, content in replaced or [("▁", " ")]:
                name = name.replace(pattern, content)
            return name.encode()

        return [of(token, name) for token, name in enumerate(self.spellings)]


def check_decoder(decoder: Mapping[str, Any] | None) -> str | None:
    """Return what is wrong with the `decoder` of a `tokenizer.json`; None if its tokens can be turned into text one by
    one."""
    kinds = {step["type"] for step in steps(decoder)}
    patterns = [step["pattern"] for step in steps(decoder) if step["type"] == "Replace"]
    if (
        kinds
        and (kinds <= {"ByteLevel", "Sequence"} or kinds <= TEXT_DECODERS)
        and all("String" in p for p in patterns)
    ):
        return None
    return f"its decoder ({', '.join(sorted(kinds)) or 'none'}) is not one of byte-level BPE or SentencePiece"


def steps(decoder: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield a decoder of a `tokenizer.json` and the decoders inside it."""
    if decoder is not None:
        yield decoder
        for inner in decoder.get("decoders", ()):
            yield from steps(inner)


def byte_characters() -> dict[str, bytes]:
    """Return the byte of each character in the names of byte-level BPE (Radford et al. 2019): printable bytes stand for
    themselves, the others for the characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): bytes([byte]) for byte in printable} | {
        chr(0x100 + number): bytes([byte]) for number, byte in enumerate(others)
    }


BYTES = byte_characters()


def library() -> Any:
    """Import `tokenizers`. Raises UserError if it is not installed."""
    try:
        import tokenizers
    except ImportError as error:
        fix = "pip install tokenizers (or pip install -e '.[pretrained]')"
        raise UserError(f"the tokenizer of this model needs the package tokenizers: {fix}") from error
    return tokenizers
