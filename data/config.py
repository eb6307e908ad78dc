"""Settings for data: sources, splits, tokenizers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from data.sources.encodings import is_text_encoding


@dataclass
class DataConfig:
    """The corpus. `source` is set by the config group: `data=primer|text|pairs|hub`."""

    source: str = "primer"
    """`primer` (built-in corpus), `text` (text files), `pairs` (files of sentence pairs) or `hub` (a dataset on the
    Hugging Face hub)."""

    path: str | None = None
    """A file, a folder, an archive (`.zip`, `.tar`), a glob, an http(s) URL, a list of two aligned files such as
    `a.en,b.ja`, or (hub) `owner/name`. Files may be compressed. Files in a folder are assigned to splits by name:
    train, valid|validation|val|dev, test; if no name matches, all files are used for training. Interrupted downloads
    are retried; if the server sends neither a Content-Length nor chunked encoding (HTTP/1.0), a truncated download
    cannot be detected."""

    valid_path: str | None = None
    """Validation file(s), which are not trained on even if the folder or glob of `path` contains them; null uses those
    found in the folder or, if there are none, splits off a part of `path`."""

    test_path: str | None = None
    """Test file(s); null uses those found in the folder or, if there are none, splits off `test_fraction` of `path`."""

    subset: str | None = None
    """Hub only: the configuration name of the dataset (`wikitext-2-raw-v1`)."""

    revision: str | None = None
    """Hub only: a branch, a tag or a commit of the dataset; null uses its main branch. Only a commit never changes."""

    train_split: str | None = None
    """Hub only: the split to train on, or a part of one: `train[:10%]`, `train+extra`. null uses the one named train;
    with `data.streaming`, a split can only be used whole."""

    valid_split: str | None = None
    """Hub only: the validation split, like `train_split`. null uses the one named validation (or valid, val, dev) or,
    if there is none, splits off `valid_fraction`."""

    test_split: str | None = None
    """Hub only: the test split, like `train_split`. null uses the one named test, if there is one."""

    text_column: str = "text"
    """Text column in JSON Lines, CSV/TSV, parquet and hub data."""

    source_column: str = "source"
    """Column of source sentences: a name, or a number starting at 1 for files without a header."""

    target_column: str = "target"
    """Column of target sentences, in the same format as `source_column`."""

    header: bool = False
    """Set to true if CSV/TSV files start with a line of column names. If false, a file whose first line contains the
    name of a requested column is rejected."""

    separator: str | None = None
    """What separates the cells of a CSV or TSV file: `comma`, `semicolon`, `tab`, `pipe` or other signs, such as
    `|||`. null recognises it."""

    quoting: str | None = None
    """Quotes in CSV and TSV files: `csv` (a cell may be enclosed in double quotes, and then hold separators, line
    breaks and doubled quotes) or `none` (quotes are text). null: `csv`, but between tabs `none`, unless the first rows
    are quoted consistently."""

    encoding: str | None = None
    """Encoding of text files that are not UTF-8, such as `cp1252`, `cp932` or `utf-16-le`. A byte order mark at the
    beginning of a file (UTF-16, UTF-32) needs no setting."""

    rows: str = "document"
    """What counts as one document in running text: a whole file, or its parts between separators `<|endoftext|>`
    (`document`), a paragraph (`paragraph`, separated by blank lines) or a line (`line`). An end-of-text token precedes
    every document, including the first."""

    split: str = "contiguous"
    """How to split off validation and test data if no files are given for them: `contiguous` (the end of the text),
    `random` (seeded, by document or pair) or `components` (pairs only: pairs that share a sentence, directly or through
    other pairs, go to the same split)."""

    valid_fraction: float = 0.1
    """Fraction of the text or pairs split off for validation if there is no validation file."""

    test_fraction: float = 0.0
    """Fraction of the text or pairs split off for testing if there is no test file."""

    valid_tokens: int | None = 400_000
    """Maximum number of validation tokens evaluated during training; null evaluates all. If the split is larger, a
    fixed, evenly spaced subset of its passages (or pairs) is used. Evaluation takes a third as long per token as
    training: 400000 tokens take as long as 33 training steps of 4096 tokens."""

    split_seed: int = 0
    """Seed of random and component splits and of the built-in corpus, independent of the run's seed so that runs remain
    comparable."""

    max_rows: int | None = None
    """Use only the first `max_rows` rows of the training split (sentence pairs, lines, paragraphs or files; see
    `data.rows`); validation and test splits are unchanged. null uses all."""

    streaming: bool = False
    """Tokenise without loading the entire text into memory (for text larger than memory)."""

    cache: str = ".cache/chumoku"
    """Folder of prepared data, keyed by content, which later runs reuse. Safe to delete."""

    batch_tokens: int = 4096
    """Translation: source + target tokens per micro-batch, including padding (a GPT uses `trainer.batch_size` windows
    instead)."""

    both_directions: bool = False
    """Translation: train every pair in both directions (Johnson et al. 2017), so that one model translates both ways
    and learns both languages from few pairs. An epoch is twice as long. `generate.py … reverse=true` translates the
    other way. Needs `tokenizer.shared`."""

    length_multiple: int = 4
    """Translation: pad lengths to a multiple of this number to limit the number of distinct batch shapes, because a
    kernel is built for each shape."""

    sentences: int = 40000
    """Built-in corpus: number of sentence pairs."""

    stories: int = 20000
    """Built-in corpus: number of stories."""


@dataclass
class TokenizerConfig:
    """The SentencePiece tokenizer, trained only on the training split and stored in the run folder."""

    kind: str = "char"
    """`char`, `bpe` or `unigram`."""

    vocab_size: int | None = None
    """Vocabulary size, including special tokens (char: the maximum; the actual size is the number of distinct
    characters). null derives it from the training text: c + (length of the text) / 400, capped at max(1024, c + 400),
    where c is the number of distinct characters (char: c, capped at 10000)."""

    character_coverage: float = 1.0
    """Fraction of the character occurrences in the training text that the vocabulary covers, from 0.98 to 1; 0.9995 is
    common for Japanese with byte fallback."""

    byte_fallback: bool = False
    """Encode unknown characters as UTF-8 bytes instead of <unk>: any text is representable. Needs 256 pieces."""

    normalization: str = "identity"
    """`identity` (lossless) or `nfkc` (Unicode NFKC, which e.g. replaces full-width digits)."""

    shared: bool = True
    """Translation: use one vocabulary for both languages (allows three-way tying) instead of one per language."""

    sampling: float = 0.0
    """Translation: sample a new segmentation of every sentence in every epoch; 0 disables it. With `bpe`, the
    probability with which each merge is dropped (BPE-dropout, Provilkov et al. 2020; 0.1 is common). With `unigram`,
    the exponent alpha of the probabilities (Kudo 2018): 0.1-0.5 is common, smaller is more random."""


LEAST_COVERAGE = 0.98
"""Least `character_coverage` that SentencePiece accepts."""

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""Characters by their names in `data.separator`."""

HUB_ONLY = ("revision", "train_split", "valid_split", "test_split")
"""Settings that apply to datasets of the hub alone."""


def problems(config: DataConfig) -> list[str]:
    """Return one sentence for each invalid setting, which names its key. Reads no file."""
    messages = _not_among(config, "data.source", ("primer", "text", "pairs", "hub"))
    messages += _not_among(config, "data.rows", ("document", "paragraph", "line"))
    messages += _not_among(config, "data.split", ("contiguous", "random", "components"))
    if config.source in ("text", "pairs", "hub") and not config.path:
        what = "the name of a hub dataset, owner/name" if config.source == "hub" else "a file, folder, glob or URL"
        messages.append(f"data.path: is needed for data={config.source}: {what}")
    if config.path and config.source == "primer":
        messages.append(f"data.path={config.path}: the built-in corpus has no files; add data=text, pairs or hub")
    for name in ("valid_path", "test_path"):
        if getattr(config, name) and config.source not in ("text", "pairs"):
            messages.append(f"data.{name}: cannot be set with data={config.source}, which has its own splits")
    for name in HUB_ONLY:
        if getattr(config, name) and config.source != "hub":
            messages.append(f"data.{name}: is for data=hub only; remove it")
        elif config.streaming and re.search(r"[\[+]", getattr(config, name) or ""):
            messages.append(f"data.{name}={getattr(config, name)}: with data.streaming a split can only be used whole")
    if config.encoding is not None and config.source not in ("text", "pairs"):
        messages.append(f"data.encoding: is for data=text and data=pairs; data={config.source} has none to choose")
    elif config.encoding is not None and not is_text_encoding(config.encoding):
        names = "cp1252, cp1251, cp932, gb18030 or utf-16-le"
        messages.append(f"data.encoding={config.encoding}: no encoding of this name; use one like {names}")
    separator = SEPARATORS.get(config.separator or "", config.separator or "")
    if separator and not re.fullmatch(r"[^\w\s\"]+|\t", separator):
        messages.append(f"data.separator={separator!r}: must be {', '.join(SEPARATORS)} or signs that are no letters")
    if len(separator) > 1 and config.quoting == "csv":
        messages.append(f"data.quoting=csv: quotes enclose cells only between single characters, not {separator}")
    if config.quoting not in (None, "csv", "none"):
        messages.append(f"data.quoting={config.quoting}: must be csv (quotes enclose cells) or none (quotes are text)")
    for name in ("separator", "quoting"):
        if getattr(config, name) is not None and config.source not in ("text", "pairs"):
            messages.append(f"data.{name}: is for CSV and TSV files of data=text and data=pairs; remove it")
    if config.streaming and config.source == "primer":
        messages.append("data.streaming: is not available for the built-in corpus, which is small; set it to false")
    if config.streaming and config.split != "contiguous":
        messages.append(f"data.split={config.split}: streamed text can only be split contiguously")
    for name in ("valid_fraction", "test_fraction"):
        if not 0 <= getattr(config, name) < 1:
            messages.append(f"data.{name}={getattr(config, name)}: must be from 0 up to (not including) 1")
    if config.valid_fraction + config.test_fraction >= 1:
        messages.append("data.valid_fraction, data.test_fraction: together they leave no training data")
    for name in ("valid_tokens", "max_rows", "batch_tokens", "length_multiple", "sentences", "stories"):
        messages += _below(
            config, f"data.{name}", 1, {"valid_tokens": "evaluates all", "max_rows": "uses all"}.get(name)
        )
    return messages + _below(config, "data.split_seed", 0)


def tokenizer_problems(config: TokenizerConfig) -> list[str]:
    """Return one sentence for each invalid tokenizer setting, which names its key."""
    messages = _not_among(config, "tokenizer.kind", ("char", "bpe", "unigram"))
    messages += _not_among(config, "tokenizer.normalization", ("identity", "nfkc"))
    messages += _below(config, "tokenizer.vocab_size", 261 if config.byte_fallback else 5, "fits it to the text")
    if not LEAST_COVERAGE <= config.character_coverage <= 1:
        messages.append(
            f"tokenizer.character_coverage={config.character_coverage}: must be from {LEAST_COVERAGE} to 1; for fewer"
            " characters, set a smaller tokenizer.vocab_size with tokenizer.kind=char"
        )
    if not 0 <= config.sampling <= 1:
        messages.append(f"tokenizer.sampling={config.sampling}: must be between 0 (off) and 1; 0.1 is common")
    if config.sampling and config.kind == "char":
        messages.append(
            "tokenizer.sampling: needs tokenizer.kind=bpe or unigram, which have several segmentations of a word"
        )
    return messages


def _not_among(config: object, key: str, choices: tuple[str, ...]) -> list[str]:
    value = getattr(config, key.partition(".")[2])
    return [] if value in choices else [f"{key}={value}: must be one of {', '.join(choices)}"]


def _below(config: object, key: str, least: int, null: str | None = None) -> list[str]:
    """Report a number below `least`. null: what the value null does, if it is one."""
    value = getattr(config, key.partition(".")[2])
    rest = f"; null {null}" if null else ""
    return [f"{key}={value}: must be at least {least}{rest}"] if value is not None and value < least else []
