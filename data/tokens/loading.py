"""Read a tokenizer of any kind from its file."""

from __future__ import annotations

import json
from pathlib import Path

from data.errors import DataError
from data.tokens.huggingface_tokenizer import HuggingFaceTokenizer
from data.tokens.marian_tokenizer import MarianTokenizer
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer

SUFFIXES = (SentencePieceTokenizer.suffix, HuggingFaceTokenizer.suffix)
"""Of the files of tokenizers: trained here, and imported with a model."""


def tokenizer_from(model: bytes, suffix: str) -> Tokenizer:
    """Return the tokenizer in a file with this content and suffix. Raises ValueError or RuntimeError if damaged."""
    if suffix == SentencePieceTokenizer.suffix:
        return SentencePieceTokenizer(model)
    content = json.loads(model)
    is_marian = isinstance(content, dict) and "sentencepiece" in content
    return MarianTokenizer(model) if is_marian else HuggingFaceTokenizer(model)


def load_tokenizer(path: Path) -> Tokenizer:
    """Read the file of a tokenizer. Raises DataError if it is missing or damaged."""
    try:
        return tokenizer_from(path.read_bytes(), path.suffix)
    except OSError as error:
        raise DataError(f"{path}: cannot read the tokenizer ({error.strerror})") from error
    except (RuntimeError, ValueError) as error:
        raise DataError(f"{path}: not a tokenizer, or damaged") from error
