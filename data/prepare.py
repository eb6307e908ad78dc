"""From rows to token files, once: the second start with the same content finds everything prepared."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

from tqdm import tqdm

from data.cache import cached_folder, content_key
from data.config import DataConfig, TokenizerConfig
from data.errors import DataError
from data.prepared import PreparedPairs, PreparedText
from data.sentences import SentenceWriter
from data.sources import Rows, load
from data.token_file import TokenWriter
from data.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_SHARE = 1 << 21  # characters encoded at a time: enough for all cores, little enough for memory
_FRAGMENT = 1 << 16  # characters of a document cut off at a time


@overload
def prepare(
    task: Literal["gpt"],
    data: DataConfig,
    tokenizer: TokenizerConfig,
    context: int,
    seed: int,
    tokenizers: Sequence[Tokenizer] | None = None,
) -> PreparedText: ...


@overload
def prepare(
    task: Literal["translate"],
    data: DataConfig,
    tokenizer: TokenizerConfig,
    context: int,
    seed: int,
    tokenizers: Sequence[Tokenizer] | None = None,
) -> PreparedPairs: ...


@overload
def prepare(
    task: str,
    data: DataConfig,
    tokenizer: TokenizerConfig,
    context: int,
    seed: int,
    tokenizers: Sequence[Tokenizer] | None = None,
) -> PreparedText | PreparedPairs: ...


def prepare(
    task: str,
    data: DataConfig,
    tokenizer: TokenizerConfig,
    context: int,
    seed: int,
    tokenizers: Sequence[Tokenizer] | None = None,
) -> PreparedText | PreparedPairs:
    """Tokenised data of a task, ready for batches.

    `context`: longest sequence of the model in tokens. `seed`: default seed of the training stream. `tokenizers`: those of a run
    that goes on or is built upon (one, or source and target); none are trained then. Tokenizers are trained on the training
    split alone. What was left out or cut is logged, one line each, and kept in `.notes`.
    Raises DataError naming file, line, key and fix; nothing half-written stays behind.
    """
    rows = load(data, task)
    settings = {name: value for name, value in asdict(tokenizer).items() if name != "sampling"}
    given = [one.fingerprint for one in tokenizers] if tokenizers else settings
    key = content_key(task=task, rows=rows.key, tokenizer=given)
    build = partial(_build_text if task == "gpt" else _build_pairs, rows, tokenizer, tokenizers)
    folder = cached_folder(Path(data.cache) / "tokens", key, build)
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    notes = rows.notes + meta["notes"]
    found = [Tokenizer.load(folder / name) for name in meta["tokenizers"]]
    prepared: PreparedText | PreparedPairs
    if task == "gpt":
        prepared = PreparedText(folder, found[0], meta["splits"], context, seed, notes, rows.splits)
    else:
        prepared = PreparedPairs(folder, found, data, tokenizer.sampling, context, seed, notes, rows.splits)
    for note in prepared.notes:
        log.info(note)
    return prepared


def _build_text(rows: Rows, config: TokenizerConfig, given: Sequence[Tokenizer] | None, folder: Path) -> None:
    if given:
        tokenizer = given[0]
    else:
        training = (text for _, text in _text_fragments(rows.splits["train"]))
        tokenizer = Tokenizer.train(_progress(training, "reading the text"), config)
    tokenizer.save(folder / "tokenizer.model")
    splits: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    for split, split_rows in rows.splits.items():
        size = documents = 0
        with TokenWriter(folder / f"{split}.bin", tokenizer.vocab_size) as writer:
            fragments = _progress(_text_fragments(split_rows), f"tokenising {split}")
            for share in _shares(fragments):
                encoded = tokenizer.encode_batch([text for _, text in share])
                for (starts_document, text), ids in zip(share, encoded, strict=True):
                    if starts_document and documents:
                        writer.write([[tokenizer.eos_id]])
                    documents += starts_document
                    writer.write([ids])
                    size += len(text.encode())
        if writer.unknown:
            notes.append(_unknown_note(split, writer.unknown, writer.count))
        # A document's end is information too: one byte, as the line end it stands for.
        splits[split] = {"tokens": writer.count, "bytes": size + max(0, documents - 1)}
    _write_meta(folder, ["tokenizer.model"], splits, notes)


def _text_fragments(rows: Any) -> Iterator[tuple[bool, str]]:
    """(starts a document, text) of a split, in parts that end where a line does and no token can span the border."""
    previous = object()
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


def _shares(fragments: Iterable[tuple[bool, str]]) -> Iterator[list[tuple[bool, str]]]:
    share: list[tuple[bool, str]] = []
    size = 0
    for fragment in fragments:
        share.append(fragment)
        size += len(fragment[1])
        if size >= _SHARE:
            yield share
            share, size = [], 0
    if share:
        yield share


def _build_pairs(rows: Rows, config: TokenizerConfig, given: Sequence[Tokenizer] | None, folder: Path) -> None:
    train = rows.splits["train"]
    if given:
        tokenizers = list(given)
    elif config.shared:
        tokenizers = [Tokenizer.train(_progress(_column_texts(train, "source", "target"), "reading the pairs"), config)]
    else:
        tokenizers = []
        for side in ("source", "target"):
            try:
                tokenizers.append(Tokenizer.train(_progress(_column_texts(train, side), f"reading {side}"), config))
            except DataError as error:
                raise DataError(f"{side} side: {error}") from error
    names = ["tokenizer.model"] if len(tokenizers) == 1 else ["tokenizer.source.model", "tokenizer.target.model"]
    for tokenizer, name in zip(tokenizers, names, strict=True):
        tokenizer.save(folder / name)
    notes: list[str] = []
    for split, split_rows in rows.splits.items():
        for side, tokenizer in (("source", tokenizers[0]), ("target", tokenizers[-1])):
            with SentenceWriter(folder, f"{split}.{side}", tokenizer.vocab_size) as writer:
                for batch in _progress(
                    split_rows.select_columns([side]).iter(batch_size=16384), f"tokenising {split} {side}"
                ):
                    writer.write(tokenizer.encode_batch(batch[side]))
            if writer.unknown:
                notes.append(_unknown_note(f"{split} {side}", writer.unknown, writer.count))
    _write_meta(folder, names, {split: {} for split in rows.splits}, notes)


def _column_texts(rows: Any, *columns: str) -> Iterator[str]:
    for batch in rows.select_columns(list(columns)).iter(batch_size=4096):
        for column in columns:
            yield from batch[column]


def _unknown_note(where: str, unknown: int, total: int) -> str:
    return (
        f"{where}: {unknown:,} of {total:,} tokens are <unk> (characters outside the vocabulary); "
        "a larger tokenizer.vocab_size or tokenizer.byte_fallback=true keeps them"
    )


def _write_meta(folder: Path, tokenizers: list[str], splits: dict[str, dict[str, int]], notes: list[str]) -> None:
    meta = {"tokenizers": tokenizers, "splits": splits, "notes": notes}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), "utf-8")


def _progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """A bar on a terminal for what takes more than two seconds."""
    return tqdm(items, desc=what, disable=None, delay=2, leave=False)
