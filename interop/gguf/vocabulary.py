"""Our SentencePiece tokenizers as vocabularies of llama.cpp, which splits text itself.

Its type `llama` merges the best pair of neighbours, as SentencePiece does for BPE, and writes unknown characters as
bytes; `t5` searches the best segmentation, as SentencePiece does for unigram and for characters, and writes <unk>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from configs.errors import UserError
from data.tokens.sentencepiece_tokenizer import STAND_INS, SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer

Proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]  # created when it is imported

BYTE = 6
"""Type of a token that is one byte. Both libraries number the types alike."""

ORIGINALS = str.maketrans({STAND_INS[character]: character for character in "\t\r"})
"""The characters for which our tokenizer writes stand-ins; not NUL, which cannot be in a token of llama.cpp."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id."""

    kind: str
    """`tokenizer.ggml.model`."""
    tokens: list[str]
    scores: list[float]
    types: list[int]
    byte_rows: int
    """Tokens at the end that our model does not have: one for each byte."""


def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary. Raises UserError naming an option that llama.cpp lacks.

    A BPE vocabulary without bytes gets 256 tokens for them: llama.cpp aborts at a character that it cannot write.
    """
    if not isinstance(tokenizer, SentencePieceTokenizer):
        fix = "use format=huggingface, and convert_hf_to_gguf.py of llama.cpp on that folder"
        raise UserError(f"format=gguf: the tokenizer came with a model of transformers (init_from): {fix}")
    model = Proto.FromString(tokenizer.model)
    spec = model.trainer_spec
    kind, with_bytes = spec.ModelType.Name(spec.model_type).lower(), spec.byte_fallback
    if model.normalizer_spec.name != "identity":
        raise UserError(
            "tokenizer.normalization=nfkc: llama.cpp does not normalise a text; train with "
            "tokenizer.normalization=identity"
        )
    if kind == "unigram" and with_bytes:
        raise UserError(
            "tokenizer.byte_fallback=true with tokenizer.kind=unigram: llama.cpp writes <unk> instead of bytes; train "
            "with tokenizer.byte_fallback=false, or with tokenizer.kind=bpe"
        )
    tokens = [piece.piece.translate(ORIGINALS) for piece in model.pieces]
    scores, types = [piece.score for piece in model.pieces], [piece.type for piece in model.pieces]
    added = 256 if kind == "bpe" and not with_bytes else 0
    return Vocabulary(
        "llama" if kind == "bpe" or with_bytes else "t5",
        tokens + [f"<0x{byte:02X}>" for byte in range(added)],
        scores + [0.0] * added,
        types + [BYTE] * added,
        added,
    )
