"""A tokenizer as JSON for `engine/tokenizer/tokenizer.js`, which splits text in the browser as SentencePiece does."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from configs.errors import UserError
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from data.tokens.tokenizer_training import SPECIAL_NAMES

Proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]  # created when it is imported

KINDS = ("char", "bpe", "unigram")

UNKNOWN_PENALTY = 10
"""SentencePiece scores an unknown character this much below the worst piece (`kUnkPenalty`)."""


def tokenizer_data(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return what the browser needs of a tokenizer, as JSON. Raises UserError naming the tokenizer if its rules are not
    those of `engine/tokenizer/`.

    kind: char, bpe or unigram; pieces: spellings by id, display names of special tokens; scores: float32 by id, none
    for characters; unknown_score: of a character that is no piece (unigram); bytes: the ids of the bytes 0 to 255, or
    []; charsmap: the replacements of normalisation in base64, or null; the roles of ids, as in `Tokenizer`.
    """
    model = _supported(tokenizer)
    kind = _kind(model)
    normal = [piece.score for piece in model.pieces if piece.type == Proto.SentencePiece.NORMAL]
    ids = {piece.piece: token for token, piece in enumerate(model.pieces) if piece.type == Proto.SentencePiece.BYTE}
    charsmap = model.normalizer_spec.precompiled_charsmap
    return {
        "kind": kind,
        "pieces": [*SPECIAL_NAMES, *(piece.piece for piece in model.pieces[len(SPECIAL_NAMES) :])],
        "scores": [] if kind == "char" else [_decimal(piece.score) for piece in model.pieces],
        "unknown_score": _decimal(float(np.float32(min(normal, default=0)) - np.float32(UNKNOWN_PENALTY))),
        "bytes": [ids[f"<0x{byte:02X}>"] for byte in range(256)] if ids else [],
        "charsmap": base64.b64encode(charsmap).decode() if charsmap else None,
        "pad_id": tokenizer.pad_id,
        "unk_id": tokenizer.unk_id,
        "bos_id": tokenizer.bos_id,
        "eos_id": tokenizer.eos_id,
        "start_id": tokenizer.start_id,
        "special_ids": sorted(tokenizer.special_ids),
        "stop_ids": sorted(tokenizer.stop_ids),
        "never_written": tokenizer.never_written,
    }


def _supported(tokenizer: Tokenizer) -> Any:
    """Return the SentencePiece model. Raises UserError."""
    supported = "the page splits text as tokenizers that are trained here do (tokenizer.kind=char, bpe or unigram)"
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError(
            f"format=page: the tokenizer came with a pretrained model (init_from; {type(tokenizer).__name__}), but "
            f"{supported}; train a run without init_from, or use format=huggingface"
        )
    model = Proto.FromString(tokenizer.model)
    spec = model.normalizer_spec
    # JavaScript does not treat a newline specially: it is in no other piece, and the score of its own is 0.
    user_defined = {piece.piece for piece in model.pieces if piece.type == Proto.SentencePiece.USER_DEFINED}
    if (
        _kind(model) not in KINDS
        or not user_defined <= {"\n"}
        or any(piece.type == Proto.SentencePiece.UNUSED for piece in model.pieces)
        or spec.add_dummy_prefix
        or spec.remove_extra_whitespaces
        or not spec.escape_whitespaces
    ):
        raise UserError(f"format=page: tokenizer.model was not trained by this program, but {supported}")
    return model


def _kind(model: Any) -> str:
    spec = model.trainer_spec
    return str(spec.ModelType.Name(spec.model_type).lower())


def _decimal(score: float) -> float:
    """Return a number with the few digits that still round to the same float32."""
    return float(f"{score:.9g}")
