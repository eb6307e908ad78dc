"""Where rows come from, how they are split, and how text becomes tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DataConfig:
    """One corpus. `source` is set by the config group: `data=primer|text|pairs|hub`."""

    source: str = "primer"
    """`primer` (embedded corpus), `text` (files of running text), `pairs` (files of sentence pairs) or `hub` (a dataset hub name)."""

    path: str | None = None
    """A file, a folder, a glob, an http(s) URL, `a.en,b.ja`-style list of two aligned files, or (hub) `owner/name`.
    A folder is searched for files named after the splits: train, valid|validation|val|dev, test."""

    valid_path: str | None = None
    """Validation file(s) of their own; null means those found in the folder, else split off from `path`."""

    test_path: str | None = None
    """Test file(s) of their own; null as for `valid_path`."""

    subset: str | None = None
    """Hub only: the dataset's configuration name (`wikitext-2-raw-v1`)."""

    text_column: str = "text"
    """Column holding the text in JSON Lines, CSV/TSV, parquet and hub data."""

    source_column: str = "source"
    """Column of the source sentence: a name, or a number counted from 1 for files without a header."""

    target_column: str = "target"
    """Column of the target sentence, likewise."""

    header: bool = False
    """CSV/TSV files start with a line of column names."""

    rows: str = "document"
    """What one row of running text is: `document` (a file), `paragraph` (blank-line separated) or `line`."""

    split: str = "contiguous"
    """How validation and test are split off when no file holds them: `contiguous` (the end of the text), `random` (seeded rows)
    or `components` (pairs: connected components of shared sentences, so that no sentence is on both sides of the split)."""

    valid_fraction: float = 0.1
    """Share of the text or pairs split off for validation when no file holds it."""

    test_fraction: float = 0.0
    """Share split off for test, likewise."""

    max_rows: int | None = None
    """Use only the first so many rows of the training split; null means all."""

    streaming: bool = False
    """Tokenise without ever holding the text in memory (text larger than memory)."""

    cache: str = ".cache/chumoku"
    """Folder of prepared data, keyed by content: the second start is instant. Safe to delete."""

    batch_tokens: int = 4096
    """Translation: padded source + target tokens per micro-batch (text uses `trainer.batch_size` windows instead)."""

    length_multiple: int = 4
    """Translation: lengths are padded to this multiple, so that few distinct shapes occur (kernels are built once per shape)."""

    sentences: int = 40000
    """Embedded corpus: how many sentence pairs are generated."""

    stories: int = 20000
    """Embedded corpus: how many stories are generated."""


@dataclass
class TokenizerConfig:
    """SentencePiece, trained on the training split alone and stored in the run."""

    kind: str = "char"
    """`char`, `bpe` or `unigram`."""

    vocab_size: int = 1024
    """Pieces in the vocabulary (char: an upper limit, the alphabet of the text decides)."""

    character_coverage: float = 1.0
    """Share of character occurrences that get a piece of their own; 0.9995 is customary for Japanese with byte fallback."""

    byte_fallback: bool = False
    """Spell unknown characters as UTF-8 bytes instead of <unk>: any text can be written. Needs 256 pieces."""

    normalization: str = "identity"
    """`identity` (exact round trip) or `nfkc` (rewrites, among others, full-width digits)."""

    shared: bool = True
    """Translation: one vocabulary for both languages (three-way tying), or one for each side."""

    sampling: float = 0.0
    """Subword regularisation (Kudo 2018; BPE-dropout for bpe): sampling temperature alpha, a new segmentation every epoch; 0 is off."""
