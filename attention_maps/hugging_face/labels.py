"""Readable pieces of the tokens of any tokenizer of transformers, spelled like ours: `▁` begins a word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from attention_maps.record.recording import Tokens

Tokenizers = Any
"""A tokenizer of transformers, a pair for source and target, or None."""


def of_sides(tokenizers: Tokenizers) -> tuple[Any, Any]:
    """Return the tokenizers of source and target."""
    return tuple(tokenizers) if isinstance(tokenizers, tuple | list) else (tokenizers, tokenizers)


def labelled(ids: Sequence[int] | None, tokenizer: Any, positions: Sequence[int]) -> Tokens:
    """Return the tokens at these positions of a text; without ids (images, vectors) they are labelled by position."""
    if ids is None:
        return Tokens(tuple(positions), tuple(str(position) for position in positions), (False,) * len(positions))
    chosen = [ids[position] for position in positions]
    special = set(() if tokenizer is None else tokenizer.all_special_ids)
    return Tokens(tuple(chosen), tuple(pieces(chosen, tokenizer)), tuple(token in special for token in chosen))


def pieces(ids: Sequence[int], tokenizer: Any) -> list[str]:
    """Return readable pieces, one per id; `#17` without a tokenizer, and for ids beyond its vocabulary."""
    if tokenizer is None:
        return [f"#{token}" for token in ids]
    names = spellings = tokenizer.convert_ids_to_tokens(list(ids))
    special = set(tokenizer.all_special_ids)
    spelling = spelling_of(tokenizer)
    if spelling == "end":  # a word begins after the end of the one before
        ended = [True, *(piece is None or piece.endswith("</w>") for piece in spellings)]
        words = zip(spellings, ended, strict=False)
        spellings = [piece and "▁" * after + piece.removesuffix("</w>") for piece, after in words]
    return [
        f"#{token}" if name is None else name if token in special else spelled(piece, spelling)
        for token, name, piece in zip(ids, names, spellings, strict=True)
    ]


def spelling_of(tokenizer: Any) -> str:
    """Return how a vocabulary marks words: `bytes` (GPT-2, Llama 3: Ġword), `wordpiece` (BERT: word ##piece), `end`
    (CLIP: word</w>), or `▁` (SentencePiece), also if it marks none."""
    vocabulary = tokenizer.get_vocab()
    if any(token.startswith("▁") for token in vocabulary):
        return "▁"
    if any(token.startswith("Ġ") for token in vocabulary):
        return "bytes"
    if any(token.startswith("##") and len(token) > 2 for token in vocabulary):
        return "wordpiece"
    return "end" if any(token.endswith("</w>") for token in vocabulary) else "▁"


def spelled(piece: str, spelling: str) -> str:
    """Return a token of a vocabulary as a readable piece: ▁ for spaces, ↵ and ⇥ for line breaks and tabulators."""
    if spelling == "wordpiece":
        return piece[2:] if piece.startswith("##") else f"▁{piece}"
    return _from_bytes(piece) if spelling == "bytes" else piece


def _from_bytes(piece: str) -> str:
    """Return the text of a byte-level token; parts of a character as `<0xE3>`, as in SentencePiece."""
    if not all(character in byte_of() for character in piece):  # an added token is plain text
        return piece
    content = bytes(byte_of()[character] for character in piece)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "".join(chr(byte) if byte < 128 else f"<0x{byte:02X}>" for byte in content)
    text = text.replace(" ", "▁").replace("\n", "↵").replace("\t", "⇥")
    return "".join(f"<0x{ord(letter):02X}>" if ord(letter) < 32 or ord(letter) == 127 else letter for letter in text)


@lru_cache(maxsize=1)
def byte_of() -> dict[str, int]:
    """Return the byte of each character of a byte-level vocabulary (Radford et al. 2019): printable bytes stand for
    themselves, the others are the characters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
