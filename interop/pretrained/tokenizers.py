"""The tokenizer that comes with a model: `tokenizer.json` of the library `tokenizers`, or SentencePiece of Marian."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configs.errors import UserError
from data.config import TokenizerConfig
from data.tokens.huggingface_tokenizer import HuggingFaceTokenizer, check_decoder
from data.tokens.marian_tokenizer import MarianTokenizer
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.pretrained.folder import CONFIG, Pretrained, read_json, shortened

FAST = "tokenizer.json"
OWN = "chumoku_tokenizer.model"
"""The SentencePiece model of a run, beside the `tokenizer.json` that `export.py` made of it."""

KINDS = {"BPE": "bpe", "Unigram": "unigram"}
"""Our names of the models of the library `tokenizers`."""


def tokenizer_config(source: Pretrained) -> TokenizerConfig:
    """Describe the tokenizer of a folder as the config of a run does. Raises UserError if it cannot be imported."""
    translates = source.architecture.task == "translate"
    with _damage_reported(source.folder):
        if _is_own(source.folder):
            model = read_json(source.folder / FAST)["model"]
            characters = model["type"] == "BPE" and not model["merges"]
            kind = "char" if characters else KINDS[model["type"]]
            return TokenizerConfig(kind, source.shapes.target_vocab, byte_fallback=model["byte_fallback"])
        kind = "unigram" if translates else KINDS[_checked_json(source.folder)["model"]["type"]]
    shared = not translates or source.config.share_embeddings
    return TokenizerConfig(kind=kind, vocab_size=source.shapes.target_vocab, shared=shared)


def imported_tokenizers(source: Pretrained) -> list[Tokenizer]:
    """Return the tokenizer of a language model, or those of source and target. Raises UserError."""
    with _damage_reported(source.folder):
        if _is_own(source.folder):
            return [_own(source)]
        return [_huggingface(source)] if source.architecture.task == "gpt" else _marian(source)


@contextmanager
def _damage_reported(folder: Path) -> Iterator[None]:
    """Convert the errors of reading files that are not built like those of a tokenizer to UserError."""
    try:
        yield
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{folder}: its tokenizer is damaged ({shortened(error)}); download it again") from error


def _is_own(folder: Path) -> bool:
    """Whether `export.py` wrote this folder of a run with a tokenizer that was trained here."""
    return (folder / OWN).is_file()


def _own(source: Pretrained) -> Tokenizer:
    """Return the tokenizer of the run that was exported. Raises UserError if it is not that of the other files."""
    try:
        tokenizer = SentencePieceTokenizer((source.folder / OWN).read_bytes())
    except OSError as error:
        raise UserError(f"{source.folder / OWN}: cannot be read ({error.strerror}); export the run again") from error
    tokens = _tokens_of(read_json(source.folder / FAST))
    first = len(tokenizer.special_ids)  # which have other names there
    if source.shapes.target_vocab != tokenizer.vocab_size or tokenizer.spellings[first:] != [
        tokens.get(token) for token in range(first, tokenizer.vocab_size)
    ]:
        raise UserError(f"{source.folder / OWN}: is not the tokenizer of {FAST} and {CONFIG}; export the run again")
    return tokenizer


def _huggingface(source: Pretrained) -> Tokenizer:
    content = _checked_json(source.folder)
    roles = _roles(source, source.shapes.target_vocab)
    start = roles["bos"] if roles["bos"] is not None else roles["eos"]
    end = roles["eos"] if roles["eos"] is not None else roles["bos"]
    if start is None or end is None:
        needed = "bos_token_id and eos_token_id are null, but a text needs a token before it"
        raise UserError(f"{source.folder / CONFIG}: {needed}; set one of them to the id of a special token")
    pad = roles["pad"] if roles["pad"] is not None else end
    tokens = _tokens_of(content)
    rows = source.shapes.target_vocab
    if tokens and max(tokens) >= rows:
        raise UserError(f"{source.folder / FAST}: has the id {max(tokens)}, but the model has {rows} (vocab_size)")
    unknown = content["model"].get("unk_token")
    if content["model"]["type"] == "Unigram" and content["model"].get("unk_id") is not None:
        unknown = content["model"]["vocab"][content["model"]["unk_id"]][0]
    unk = next((token for token, name in tokens.items() if name == unknown), -1)
    unk = -1 if unk in (start, end, pad) else unk  # as in tokenizers that split text into bytes, and need none
    special = {token["id"] for token in content["added_tokens"] if token["special"]} | {start, end, pad}
    special |= {unk} - {-1} | {token for token in range(rows) if token not in tokens}
    ids = {"pad_id": pad, "unk_id": unk, "bos_id": start, "eos_id": end, "start_id": start}
    return HuggingFaceTokenizer(HuggingFaceTokenizer.packed(rows, ids, special, tokenizer=content))


def _tokens_of(content: Mapping[str, Any]) -> dict[int, str]:
    """Return the name of each id of a `tokenizer.json`."""
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, dict):
        names = {token: name for name, token in vocabulary.items()}
    else:  # Unigram: [[name, score], …]
        names = {token: name for token, (name, _) in enumerate(vocabulary)}
    return names | {token["id"]: token["content"] for token in content["added_tokens"]}


def _checked_json(folder: Path) -> dict[str, Any]:
    """Return the `tokenizer.json` of a folder. Raises UserError if it is missing or cannot be used."""
    path = folder / FAST
    if not path.exists():
        convert = "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        raise UserError(f"{path}: is missing; in transformers, {convert} writes it")
    content = read_json(path)
    kind = (content.get("model") or {}).get("type")
    problem = check_decoder(content.get("decoder"))
    if kind not in KINDS:
        problem = f"its model ({kind}) is not one of {', '.join(KINDS)}"
    if problem is not None:
        if "\ufdd0" in json.dumps(content.get("normalizer"), ensure_ascii=False):  # the escapes of our tokenizers
            raise UserError(f"{path}: is an export without {OWN}; export the run again, or give init_from=runs/NAME")
        raise UserError(f"{path}: {problem}; choose a model with another tokenizer")
    return content


def _marian(source: Pretrained) -> list[Tokenizer]:
    folder, shapes = source.folder, source.shapes
    separate = (folder / "target_vocab.json").exists()
    sides = (
        ("source.spm", "vocab.json", shapes.source_vocab),
        ("target.spm", "target_vocab.json" if separate else "vocab.json", shapes.target_vocab),
    )
    tokenizers: list[Tokenizer] = []
    for model, table, rows in sides:
        vocabulary = read_json(folder / table)
        try:
            content = base64.b64encode((folder / model).read_bytes()).decode()
        except OSError as error:
            raise UserError(f"{folder / model}: cannot be read ({error.strerror}); download the whole model") from error
        if max(vocabulary.values()) >= rows:
            raise UserError(f"{folder / table}: has the id {max(vocabulary.values())}, but the model has {rows} rows")
        roles = _roles(source, rows)
        unk, eos, pad = vocabulary.get("<unk>"), roles["eos"], roles["pad"]
        if unk is None or eos is None or pad is None:
            raise UserError(f"{folder}: needs <unk> in {table}, and eos_token_id and pad_token_id in {CONFIG}")
        bos = pad if roles["decoder_start"] is None else roles["decoder_start"]
        ids = {"pad_id": pad, "unk_id": unk, "bos_id": bos, "eos_id": eos, "start_id": eos}
        special = {pad, unk, bos, eos} | (set(range(rows)) - set(vocabulary.values()))
        tokenizers.append(
            MarianTokenizer(MarianTokenizer.packed(rows, ids, special, vocabulary=vocabulary, sentencepiece=content))
        )
    return tokenizers


def _roles(source: Pretrained, rows: int) -> dict[str, int | None]:
    """Return the special ids in config.json, the first of several; None for those that are null."""
    roles: dict[str, int | None] = {}
    for role in ("bos", "eos", "pad", "decoder_start"):
        key = f"{role}_token_id"
        value = source.values.get(key)
        value = value[0] if isinstance(value, list) and value else value
        if value is not None and (not isinstance(value, int) or not 0 <= value < rows):
            raise UserError(f"{source.folder / CONFIG}: {key}={value}: is not an id of the vocabulary, 0 to {rows - 1}")
        roles[role] = value
    return roles
