"""Settings of the data: sources, splits, tokenizers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DataConfig:
    """One corpus. `source` is set by the config group: `data=primer|text|pairs|hub`."""

    source: str = "primer"
    """`primer` (embedded corpus), `text` (files of running text), `pairs` (files of sentence pairs) or `hub` (a
    dataset hub name)."""

    path: str | None = None
    """A file, a folder, a glob, an http(s) URL, a list of two aligned files such as `a.en,b.ja`, or (hub) `owner/name`.
    A folder is searched for files named after the splits: train, valid|validation|val|dev, test; if none is, all its
    files are training text. Interrupted downloads are retried; where the server states neither length nor chunks
    (HTTP/1.0), an incomplete file cannot be told from a complete one."""

    valid_path: str | None = None
    """Validation file(s); null means those found in the folder, else a part of `path`."""

    test_path: str | None = None
    """Test file(s); null as for `valid_path`."""

    subset: str | None = None
    """Hub only: the dataset's configuration name (`wikitext-2-raw-v1`)."""

    text_column: str = "text"
    """Column of the text in JSON Lines, CSV/TSV, parquet and hub data."""

    source_column: str = "source"
    """Column of the source sentence: a name, or a number counted from 1 for files without a header."""

    target_column: str = "target"
    """Column of the target sentence, likewise."""

    header: bool = False
    """CSV/TSV files start with a line of column names. A file whose first line has a wanted name is refused without."""

    rows: str = "document"
    """What a row of running text is: `document` (a file), `paragraph` (separated by blank lines) or `line`. An end
    token precedes each row, the first included."""

    split: str = "contiguous"
    """How validation and test are split off when they have no files: `contiguous` (the end of the text), `random`
    (seeded rows) or `components` (pairs: connected components of shared sentences, so that no sentence is in two
    splits)."""

    valid_fraction: float = 0.1
    """Fraction of the text or pairs split off for validation when it has no file."""

    test_fraction: float = 0.0
    """Fraction split off for test, likewise."""

    valid_tokens: int | None = 400_000
    """Maximum number of validation tokens that an evaluation during training takes; null means all. Of a larger split
    these are passages (or pairs) spread evenly over it, the same ones every time. A token costs a third of its time in
    training: 400000 take as long as 33 training steps of 4096 tokens."""

    split_seed: int = 0
    """Seed of random and component splits and of the embedded corpus. It is not the run's seed: runs stay
    comparable."""

    max_rows: int | None = None
    """Use only the first rows of the training split, at most so many (of text with `rows=document`: files); validation
    and test stay whole. null means all."""

    streaming: bool = False
    """Tokenise without holding the text in memory (text larger than memory)."""

    cache: str = ".cache/chumoku"
    """Folder of prepared data, keyed by content: a second start reuses them. Safe to delete."""

    batch_tokens: int = 4096
    """Translation: padded source + target tokens per micro-batch (text uses `trainer.batch_size` windows instead)."""

    length_multiple: int = 4
    """Translation: lengths are padded to this multiple, for few distinct shapes (a kernel is built for each shape)."""

    sentences: int = 40000
    """Embedded corpus: number of sentence pairs."""

    stories: int = 20000
    """Embedded corpus: number of stories."""


@dataclass
class TokenizerConfig:
    """SentencePiece, trained only on the training split and stored in the run."""

    kind: str = "char"
    """`char`, `bpe` or `unigram`."""

    vocab_size: int | None = None
    """Size of the vocabulary (char: its maximum; the size is that of the alphabet). null fits it to the training text:
    its alphabet and one more piece for every 400 characters, up to 1024 in all or 400 beyond the alphabet, whichever is
    more (char: the alphabet, up to 10000)."""

    character_coverage: float = 1.0
    """Fraction of character occurrences that have a piece of their own; 0.9995 is common for Japanese with byte
    fallback."""

    byte_fallback: bool = False
    """Encode unknown characters as UTF-8 bytes instead of <unk>: any text is representable. Needs 256 pieces."""

    normalization: str = "identity"
    """`identity` (exact round trip) or `nfkc` (rewrites, among others, full-width digits)."""

    shared: bool = True
    """Translation: one vocabulary for both languages (three-way tying), or one for each side."""

    sampling: float = 0.0
    """Translation with unigram: subword regularisation (Kudo 2018), a new segmentation every epoch. The exponent alpha
    of the probabilities: 0.1-0.5 is common, smaller is more random, 0 is off."""


def problems(config: DataConfig) -> list[str]:
    """All invalid settings, one sentence each that names the key; empty when there are none. Reads no file."""
    found = _not_among(config, "data.source", ("primer", "text", "pairs", "hub"))
    found += _not_among(config, "data.rows", ("document", "paragraph", "line"))
    found += _not_among(config, "data.split", ("contiguous", "random", "components"))
    if config.source in ("text", "pairs", "hub") and not config.path:
        what = "the name of a hub dataset, owner/name" if config.source == "hub" else "a file, folder, glob or URL"
        found.append(f"data.path: is needed for data={config.source}: {what}")
    for name in ("valid_path", "test_path"):
        if getattr(config, name) and config.source not in ("text", "pairs"):
            found.append(f"data.{name}: has no meaning for data={config.source}, which has splits of its own")
    if config.streaming and config.source == "primer":
        found.append("data.streaming: the embedded corpus is small; leave it off")
    if config.streaming and config.split != "contiguous":
        found.append(f"data.split={config.split}: text that is streamed can only be split contiguously")
    for name in ("valid_fraction", "test_fraction"):
        if not 0 <= getattr(config, name) < 1:
            found.append(f"data.{name}={getattr(config, name)}: must be from 0 up to (not including) 1")
    if config.valid_fraction + config.test_fraction >= 1:
        found.append("data.valid_fraction, data.test_fraction: together they leave nothing to train on")
    for name in ("valid_tokens", "max_rows", "batch_tokens", "length_multiple", "sentences", "stories"):
        found += _below(config, f"data.{name}", 1)
    return found + _below(config, "data.split_seed", 0)


def tokenizer_problems(config: TokenizerConfig) -> list[str]:
    """The same for the tokenizer."""
    found = _not_among(config, "tokenizer.kind", ("char", "bpe", "unigram"))
    found += _not_among(config, "tokenizer.normalization", ("identity", "nfkc"))
    found += _below(config, "tokenizer.vocab_size", 261 if config.byte_fallback else 5)
    if not 0 < config.character_coverage <= 1:
        found.append(f"tokenizer.character_coverage={config.character_coverage}: must be above 0 and at most 1")
    if not 0 <= config.sampling <= 1:
        found.append(f"tokenizer.sampling={config.sampling}: must be between 0 (off) and 1; 0.1 is common")
    if config.sampling and config.kind != "unigram":
        found.append(
            "tokenizer.sampling: needs tokenizer.kind=unigram, which has several segmentations of a word;"
            f" {config.kind} has one"
        )
    return found


def _not_among(config: object, key: str, choices: tuple[str, ...]) -> list[str]:
    value = getattr(config, key.partition(".")[2])
    return [] if value in choices else [f"{key}={value}: must be one of {', '.join(choices)}"]


def _below(config: object, key: str, least: int) -> list[str]:
    value = getattr(config, key.partition(".")[2])
    return [f"{key}={value}: must be at least {least}"] if value is not None and value < least else []
