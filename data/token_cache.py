"""Turn rows into tokenizers and token files, kept in the cache: a second start with the same content reuses them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data.cache_folders import cache_folder, cached_folder, content_key, read_prepared
from data.config import DataConfig, TokenizerConfig
from data.cpu_cores import uncollected
from data.errors import DataError
from data.sources.running_text import chunks
from data.sources.sources import Rows, load
from data.tokens.loading import load_tokenizer
from data.tokens.lost_characters import BITS, LossWriter
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_file import TokenWriter
from data.tokens.token_rows import TokenRowWriter
from data.tokens.tokenizer import Tokenizer
from data.tokens.tokenizer_training import LARGEST_FITTED, SAMPLE_CHARACTERS, marked
from data.training_data import PreparedPairs, PreparedText

_CHUNK = 1 << 21  # characters encoded together: enough to occupy all cores, few enough for memory
_FRAGMENT = 1 << 16  # characters per fragment of a document


def prepare(
    task: str,
    data: DataConfig,
    tokenizer: TokenizerConfig,
    context: int,
    seed: int,
    tokenizers: Sequence[Tokenizer] | None = None,
) -> PreparedText | PreparedPairs:
    """Return the tokenised data of a task.

    `context`: longest sequence of the model in tokens. `seed`: default seed of the training stream. `tokenizers`:
    tokenizers of an earlier run (one, or source and target) to use instead of training new ones on the training split.
    `.notes` of the result lists what was skipped or truncated, one line each. Raises DataError naming file, line, key
    and fix; nothing incomplete remains in the cache. With tokenizers, a validation or test file alone is enough
    (data.path null): there is no training split then.
    """
    held_out = data.source in ("text", "pairs") and data.path is None
    rows = load(data, task, needs_valid=not held_out)
    notes = list(rows.notes)
    if tokenizers is None:
        settings = {name: value for name, value in asdict(tokenizer).items() if name != "sampling"}
        key = content_key(task=task, rows=rows.key, tokenizer=settings)
        folder = cached_folder(cache_folder(data, "tokenizers"), key, partial(_train_tokenizers, task, rows, tokenizer))
        tokenizers = [load_tokenizer(path) for path in sorted(folder.glob("*.model"))]  # source comes before target
        notes += read_prepared(folder / "notes.json") if (folder / "notes.json").exists() else []
        notes += _fitted_notes(tokenizer, tokenizers)
    fingerprints = [model.fingerprint for model in tokenizers]
    key = content_key(task=task, rows=rows.key, tokenizers=fingerprints)
    folder = cached_folder(cache_folder(data, "tokens"), key, partial(_write_tokens, task, rows, tokenizers))
    meta = read_prepared(folder / "meta.json")
    notes += meta["notes"]
    # Hashes of the tokens: unlike the cache keys they change only if the batches change, so that any run can resume.
    hashes = meta["hashes"]
    used = {split: hashes.pop(split) for split in ("train", "valid") if split in hashes} | {
        "test": chain.from_iterable(hashes.values())
    }
    keys = {
        part: hashlib.sha256(" ".join([*digests, *fingerprints]).encode()).hexdigest()[:24]
        for part, digests in used.items()
    }
    common = (folder, list(tokenizers), data, context, seed, notes, rows, keys)
    if task == "gpt":
        return PreparedText(*common, {split: size["bytes"] for split, size in meta["splits"].items()})
    return PreparedPairs(*common, tokenizer)


def _train_tokenizers(task: str, rows: Rows, config: TokenizerConfig, folder: Path) -> None:
    train = rows["train"]
    training: dict[str, Iterator[str]]
    if task == "gpt":
        training = {"tokenizer.model": (text for _, text in _text_fragments(train))}
    elif config.shared:
        training = {"tokenizer.model": _column_texts(train, config, "source", "target")}
    else:
        training = {f"tokenizer.{side}.model": _column_texts(train, config, side) for side in ("source", "target")}
    notes = []
    for name, texts in training.items():
        read = _Counted(_progress(texts, "reading text for the tokenizer"))
        try:
            with uncollected() if task == "translate" else nullcontext():  # because of the word spans
                SentencePieceTokenizer.train(read, config).save(folder / name)
        except DataError as error:
            side = name.split(".")[1]
            raise DataError(f"{side} side: {error}" if len(training) > 1 else str(error)) from error
        if read.characters > SAMPLE_CHARACTERS:
            part = f"at most {SAMPLE_CHARACTERS:,} of {read.characters:,} characters"
            notes.append(f"{name}: trained on evenly spaced lines, {part}")
    (folder / "notes.json").write_text(json.dumps(notes), "utf-8")


class _Counted:
    """Texts, and the number of characters read so far."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.characters = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self.characters += len(text)
            yield text


def _write_tokens(task: str, rows: Rows, tokenizers: Sequence[Tokenizer], folder: Path) -> None:
    splits: dict[str, dict[str, int]] = {}
    hashes: dict[str, list[str]] = {}
    notes: list[str] = []
    for split in rows.names:
        if task == "gpt":
            splits[split], written = _write_text(rows[split], split, tokenizers[0], folder, notes)
            hashes[split] = [written]
        else:
            hashes[split] = [
                _write_side(rows[split], split, side, tokenizer, folder, notes)
                for side, tokenizer in (("source", tokenizers[0]), ("target", tokenizers[-1]))
            ]
    meta = {"splits": splits, "notes": notes, "hashes": hashes}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), "utf-8")


def _write_text(
    rows: Any, split: str, tokenizer: Tokenizer, folder: Path, notes: list[str]
) -> tuple[dict[str, int], str]:
    """Write the tokens of a split, a start token before each document; return the sizes and the hash of the tokens."""
    size = documents = 0
    losses = LossWriter(tokenizer)
    with TokenWriter(folder / f"{split}.bin", tokenizer.vocab_size, tokenizer.unk_id) as writer:
        fragments = _progress(_text_fragments(rows), f"tokenising {split}")
        for chunk in chunks(fragments, lambda fragment: len(fragment[1]), _CHUNK):
            encoded = tokenizer.encode_batch([text for _, text in chunk])
            position = writer.count
            for (starts_document, text), ids in zip(chunk, encoded, strict=True):
                losses.add(text, ids, 0, position + starts_document)
                if starts_document:
                    ids.insert(0, tokenizer.start_id)
                position += len(ids)
                documents += starts_document
                size += len(text.encode())
            writer.write(encoded)
    losses.save(folder / f"{split}.losses.npy")
    notes += _loss_notes(split, losses, writer, tokenizer)
    # A predicted eos ends a document, which is information too: it counts as one byte, like a newline.
    return {"tokens": writer.count, "bytes": size + max(0, documents - 1)}, writer.digest()


def _text_fragments(rows: Any) -> Iterator[tuple[bool, str]]:
    """Yield (starts a document, text) for each part of a split; parts end with a newline, which no token spans."""
    previous = object()
    if rows.column_names:  # None for some streams; gold columns are slow to read
        rows = rows.select_columns([name for name in ("text", "document") if name in rows.column_names])
    for batch in rows.iter(batch_size=256):
        numbers = batch.get("document", [None] * len(batch["text"]))
        for number, text in zip(numbers, batch["text"], strict=True):
            starts = number is None or number != previous
            previous = number
            position = 0
            while position < len(text):
                end = text.find("\n", position + _FRAGMENT) + 1 or len(text)
                yield starts, text[position:end]
                starts, position = False, end


def _write_side(rows: Any, split: str, side: str, tokenizer: Tokenizer, folder: Path, notes: list[str]) -> str:
    """Write the tokens of one side of a split; return the hash of the tokens."""
    losses = LossWriter(tokenizer)
    with TokenRowWriter(folder, f"{split}.{side}", tokenizer.vocab_size, tokenizer.unk_id) as writer:
        batches = rows.select_columns([side]).iter(batch_size=16384)
        for batch in _progress(batches, f"tokenising {split} {side}"):
            encoded = tokenizer.encode_batch(batch[side])
            for row, (text, ids) in enumerate(zip(batch[side], encoded, strict=True), start=writer.rows):
                losses.add(text, ids, row, 0)
            writer.write(encoded)
    losses.save(folder / f"{split}.{side}.losses.npy")
    notes += _loss_notes(f"{split} {side}", losses, writer, tokenizer)
    return writer.digest()


def _column_texts(rows: Any, config: TokenizerConfig, *columns: str) -> Iterator[str]:
    """Yield texts to train a tokenizer on; word boundaries are marked if the rows have the spans of their `words`."""
    has_words = "words" in (rows.column_names or ()) and config.kind != "char"
    for batch in rows.select_columns([*columns, "words"] if has_words else list(columns)).iter(batch_size=4096):
        for column in columns:
            if has_words:
                words = [spans[("source", "target").index(column)] for spans in batch["words"]]
                yield from (marked(text, spans) for text, spans in zip(batch[column], words, strict=True))
            else:
                yield from batch[column]


def _fitted_notes(config: TokenizerConfig, tokenizers: Sequence[Tokenizer]) -> list[str]:
    """Return a note on vocabulary sizes that were fitted to a short text or a large alphabet."""
    sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
    if config.vocab_size is not None or config.kind == "char" or set(sizes) == {LARGEST_FITTED[config.kind]}:
        return []
    size = " and ".join(map(str, sizes))
    return [f"tokenizer.vocab_size={size}: fitted to the training text; set a number to choose another"]


def _loss_notes(where: str, losses: LossWriter, writer: TokenWriter, tokenizer: Tokenizer) -> list[str]:
    """Return a note on the share of the characters that a tokenizer loses."""
    if not losses.lost_characters:
        return []
    lost, whole = losses.lost_characters, losses.characters
    share = f"{100 * lost / whole:{'.2g' if lost < 0.9 * whole else '.0f'}}"  # not 1e+02
    cause, fixes = [], []
    if writer.unknown:
        cause.append(f"outside the vocabulary ({writer.unknown:,} of {writer.count:,} tokens are <unk>)")
        fixes.append("tokenizer.byte_fallback=true (or a larger tokenizer.vocab_size, if the training text has them)")
    if losses.normalised:
        cause.append("changed by normalisation")
        fixes.append("tokenizer.normalization=identity")
    fix = f"; {' and '.join(fixes)} keeps them" if isinstance(tokenizer, SentencePieceTokenizer) else ""
    return [
        f"{where}: the tokenizer loses {share} % of the characters ({lost:,} of {whole:,}),"
        f" {' or '.join(cause)}; bits per byte charge {BITS} bits for each lost byte{fix}"
    ]


def _progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """Show a progress bar after two seconds, if stderr is a terminal."""
    return tqdm(items, desc=what, disable=None, delay=2, leave=False)
