"""Our SentencePiece tokenizers as `tokenizer.json` of the library `tokenizers`: the same ids, the same text.

SentencePiece and our `Tokenizer` around it      in tokenizer.json
escapes of tabs, NULs, U+2581 … (`ESCAPES`)       Replace normalizers, in an order in which none sees another's result
a space is U+2581                                 a Replace normalizer
no piece spans a newline, or the start of a word  Split pre-tokenizers: short pieces, cached
BPE: merge the best pair of neighbours            BPE; its merges: all pairs that form a piece, by its score
unigram: Viterbi search                           Unigram
characters                                        BPE without merges
decoding (`_unescape`)                            the inverse Replace decoders, after the bytes of characters are joined
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as HuggingFaceTokenizer

from configs.errors import UserError
from data.tokens.sentencepiece_tokenizer import ESCAPE, ESCAPES, STAND_INS, SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from data.tokens.tokenizer_training import SPECIAL_NAMES

Proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]  # created when it is imported

Pieces = Mapping[str, tuple[int, float]]
"""Id and score of each piece that is text."""

KINDS = {1: "unigram", 2: "bpe", 4: "char"}
"""`TrainerSpec.ModelType` of SentencePiece."""

_SPACE = "\u2581"
"""What SentencePiece writes for a space."""

_NEVER = -1e6
"""Score of pieces that no text may become; so low that every other way to write the text is better."""


def convert(ours: Tokenizer, before: bool) -> HuggingFaceTokenizer:
    """Return the tokenizer as one of the library `tokenizers`. before: eos stands before each text, as before each
    document of a GPT, rather than after it, as after each source. Raises UserError naming an option that it lacks."""
    if not isinstance(ours, SentencePieceTokenizer):
        raise UserError("the tokenizer came with a model of transformers (init_from): use format=huggingface")
    model = Proto.FromString(ours.model)
    check(model)
    kind = KINDS[model.trainer_spec.model_type]
    byte_fallback = model.trainer_spec.byte_fallback
    text = Proto.SentencePiece.NORMAL, Proto.SentencePiece.USER_DEFINED
    pieces = {piece.piece: (number, piece.score) for number, piece in enumerate(model.pieces) if piece.type in text}
    special = special_names(pieces, kind, [piece.piece for piece in model.pieces[: len(SPECIAL_NAMES)]])
    names = [*special, *(piece.piece for piece in model.pieces[len(special) :])]

    theirs = HuggingFaceTokenizer(
        unigram(names, pieces, byte_fallback) if kind == "unigram" else bpe(names, pieces, byte_fallback, kind == "bpe")
    )
    theirs.normalizer = normalizer()
    theirs.pre_tokenizer = pre_tokenizer(pieces, kind, byte_fallback)
    theirs.decoder = decoder(special[ours.unk_id])
    bos, eos = special[ours.bos_id], special[ours.eos_id]
    theirs.post_processor = processors.TemplateProcessing(
        single=[eos, "$A"] if before else ["$A", eos],
        pair=[eos, "$A", eos, "$B"] if before else ["$A", eos, "$B", eos],
        special_tokens=[(eos, ours.eos_id)],
    )
    theirs.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in (special[ours.pad_id], bos, eos)]
    )
    return theirs


def check(model: Any) -> None:
    """Raise UserError if the model has an option that is not reproduced."""
    spec = model.normalizer_spec
    refused = [
        sentence
        for holds, sentence in (
            (
                bool(spec.precompiled_charsmap),
                f"tokenizer.normalization={spec.name}: transformers normalises some characters differently; train with "
                "tokenizer.normalization=identity (and normalise the text beforehand)",
            ),
            (
                spec.add_dummy_prefix or spec.remove_extra_whitespaces or not spec.escape_whitespaces,
                "tokenizer.model was not trained by this program: it adds or removes spaces",
            ),
        )
        if holds
    ]
    if refused:
        raise UserError(*refused)


def special_names(pieces: Pieces, kind: str, inside: list[str]) -> list[str]:
    """Return the names of the special tokens: `<pad>`, `<unk>`, `<s>`, `</s>`, or, where a text could become one of
    these, the names `inside` the model, which cannot occur in a text.

    A name may be text if it is a piece itself (WikiText writes <unk>), or if the unigram search, which looks up special
    tokens like pieces, has no other way to write it.
    """
    spelled = set("".join(SPECIAL_NAMES)) <= pieces.keys()
    return list(inside if set(SPECIAL_NAMES) & pieces.keys() or (kind == "unigram" and not spelled) else SPECIAL_NAMES)


def bpe(names: list[str], pieces: Pieces, byte_fallback: bool, merging: bool) -> models.BPE:
    """Return a BPE model, which merges the pair of neighbours that forms the best piece until none forms a piece."""
    merges = sorted(_pairs(pieces), key=lambda pair: (-pieces[pair[0] + pair[1]][1], pieces[pair[0]], pieces[pair[1]]))
    return models.BPE(
        vocab={name: number for number, name in enumerate(names)},
        merges=merges if merging else [],
        unk_token=names[SentencePieceTokenizer.unk_id],
        fuse_unk=True,
        byte_fallback=byte_fallback,
    )


def _pairs(pieces: Pieces) -> Iterator[tuple[str, str]]:
    """Yield every pair of pieces that together form a piece."""
    for piece in pieces:
        for cut in range(1, len(piece)):
            if piece[:cut] in pieces and piece[cut:] in pieces:
                yield piece[:cut], piece[cut:]


def unigram(names: list[str], pieces: Pieces, byte_fallback: bool) -> models.Unigram:
    """Return a unigram model. It looks up the names of special tokens and bytes in the text, too: see `_NEVER`."""
    vocab = [(name, pieces[name][1] if name in pieces else _NEVER) for name in names]
    return models.Unigram(vocab, unk_id=SentencePieceTokenizer.unk_id, byte_fallback=byte_fallback)


def normalizer() -> normalizers.Normalizer:
    """Return the escapes of our tokenizer, and U+2581 for a space."""
    steps = {**ESCAPES, **STAND_INS, " ": _SPACE}
    return normalizers.Sequence([normalizers.Replace(character, content) for character, content in steps.items()])


def pre_tokenizer(pieces: Pieces, kind: str, byte_fallback: bool) -> pre_tokenizers.PreTokenizer:
    """Return a division into lines and, where a space is a piece, into words.

    A unigram model finds the name of a byte, <0x41>, in the text if one of its characters is not a piece: a division
    at that character, which becomes bytes anyway, prevents it.
    """
    steps = [pre_tokenizers.Split("\n", "merged_with_previous")]
    if _SPACE in pieces and kind != "char":
        steps.append(pre_tokenizers.Split(_SPACE, "merged_with_next"))
    missing = "".join(sorted(set("<0x123456789ABCDEF>") - pieces.keys()))
    if kind == "unigram" and byte_fallback and missing:
        steps.append(pre_tokenizers.Split(Regex(f"[{missing}]"), "isolated"))
    return pre_tokenizers.Sequence(steps)


def decoder(unknown: str) -> decoders.Decoder:
    """Return the inverse of `normalizer`; an unknown token becomes U+FFFD."""
    escaped = {after: before for before, after in {**STAND_INS, **dict(reversed(ESCAPES.items()))}.items()}
    return decoders.Sequence(
        [
            decoders.Replace(Regex(rf"\A{unknown}\z"), "\ufffd"),
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(Regex(f"{ESCAPE}(?![0-4])"), "\ufffd"),
            *(decoders.Replace(after, before) for after, before in escaped.items()),
        ]
    )
