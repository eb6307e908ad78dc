"""Where rows come from, how they are split, and how text becomes tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DataConfig:
    """One corpus. `source` is set by the config group: `data=primer|text|pairs|hub`."""

    source: str = "primer"
    """`primer` (embedded corpus), `text` (files of running text), `pairs` (files of sentence pairs) or `hub` (a
    dataset hub name)."""

    path: str | None = None
    """A file, a folder, a glob, an http(s) URL, `a.en,b.ja`-style list of two aligned files, or (hub) `owner/name`. A
    folder is searched for files named after the splits: train, valid|validation|val|dev, test; if none is, all its
    files are the training text. A download that breaks off is tried again; where the server states no length and sends
    no chunks (HTTP/1.0), a part cannot be told from the whole file."""

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
    """CSV/TSV files start with a line of column names. Needed where that line holds a wanted name: it is refused as a
    row."""

    rows: str = "document"
    """What one row of running text is: `document` (a file), `paragraph` (blank-line separated) or `line`. The end token
    stands before each row, the first included."""

    split: str = "contiguous"
    """How validation and test are split off when no file holds them: `contiguous` (the end of the text), `random`
    (seeded rows) or `components` (pairs: connected components of shared sentences, so that no sentence is on both sides
    of the split)."""

    valid_fraction: float = 0.1
    """Share of the text or pairs split off for validation when no file holds it."""

    test_fraction: float = 0.0
    """Share split off for test, likewise."""

    valid_tokens: int | None = 400_000
    """Most tokens of the validation split that are evaluated during training; null means all. Of a larger split these
    are passages (or pairs) spread evenly over it, the same ones every time. A token costs a third of what it does in
    training: 400000 take as long as 33 training steps of 4096 tokens, however many steps lie between evaluations."""

    split_seed: int = 0
    """Seed of random and component splits and of the embedded corpus. Apart from the run's seed: runs stay
    comparable."""

    max_rows: int | None = None
    """Use only the first so many rows of the training split (of text with `rows=document`: files); validation and test
    stay whole. null means all."""

    streaming: bool = False
    """Tokenise without ever holding the text in memory (text larger than memory)."""

    cache: str = ".cache/chumoku"
    """Folder of prepared data, keyed by content: the second start is instant. Safe to delete."""

    batch_tokens: int = 4096
    """Translation: padded source + target tokens per micro-batch (text uses `trainer.batch_size` windows instead)."""

    length_multiple: int = 4
    """Translation: lengths are padded to this multiple, so that few distinct shapes occur (kernels are built once
    per shape)."""

    sentences: int = 40000
    """Embedded corpus: how many sentence pairs are generated."""

    stories: int = 20000
    """Embedded corpus: how many stories are generated."""


@dataclass
class TokenizerConfig:
    """SentencePiece, trained on the training split alone and stored in the run."""

    kind: str = "char"
    """`char`, `bpe` or `unigram`."""

    vocab_size: int | None = None
    """Pieces in the vocabulary (char: an upper limit, the alphabet of the text decides). null fits it to the training
    text: its alphabet and a piece more for every 400 characters, up to 1024 in all or 400 beyond the alphabet,
    whichever is more (char: the alphabet, up to 10000)."""

    character_coverage: float = 1.0
    """Share of character occurrences that get a piece of their own; 0.9995 is customary for Japanese with byte
    fallback."""

    byte_fallback: bool = False
    """Spell unknown characters as UTF-8 bytes instead of <unk>: any text can be written. Needs 256 pieces."""

    normalization: str = "identity"
    """`identity` (exact round trip) or `nfkc` (rewrites, among others, full-width digits)."""

    shared: bool = True
    """Translation: one vocabulary for both languages (three-way tying), or one for each side."""

    sampling: float = 0.0
    """Translation with unigram: subword regularisation (Kudo 2018), a new segmentation every epoch; the exponent alpha
    on probabilities (0.1-0.5 are customary, smaller is wilder); 0 is off."""


def problems(data: DataConfig, tokenizer: TokenizerConfig, task: str) -> list[str]:
    """Everything that cannot work, each line naming its key; empty when all is well. Looks at no file."""
    found: list[str] = []

    def one_of(key: str, value: str, *choices: str) -> None:
        if value not in choices:
            found.append(f"{key}={value}: must be one of {', '.join(choices)}")

    def at_least(key: str, value: int | None, least: int) -> None:
        if value is not None and value < least:
            found.append(f"{key}={value}: must be at least {least}")

    one_of("data.source", data.source, "primer", "text", "pairs", "hub")
    one_of("data.rows", data.rows, "document", "paragraph", "line")
    one_of("data.split", data.split, "contiguous", "random", "components")
    one_of("tokenizer.kind", tokenizer.kind, "char", "bpe", "unigram")
    one_of("tokenizer.normalization", tokenizer.normalization, "identity", "nfkc")
    if data.source == "text" and task == "translate":
        found.append("data.source=text: translation needs sentence pairs (data=pairs, hub or primer)")
    if data.source == "pairs" and task == "gpt":
        found.append("data.source=pairs: a GPT needs running text (data=text, hub or primer)")
    if data.source in ("text", "pairs", "hub") and not data.path:
        what = "the name of a hub dataset, owner/name" if data.source == "hub" else "a file, folder, glob or URL"
        found.append(f"data.path: is needed for data={data.source}: {what}")
    for name in ("valid_path", "test_path"):
        if getattr(data, name) and data.source not in ("text", "pairs"):
            found.append(f"data.{name}: has no meaning for data={data.source}, which brings its own splits")
    if data.split == "components" and task == "gpt":
        found.append("data.split=components: connects sentence pairs; for running text use contiguous or random")
    if data.streaming and task == "translate":
        found.append("data.streaming: is for running text; pairs are read into memory-mapped tables anyway")
    if data.streaming and data.source == "primer":
        found.append("data.streaming: the embedded corpus is small; leave it off")
    if data.streaming and data.split != "contiguous":
        found.append(f"data.split={data.split}: text that is streamed can only be split contiguously")
    for name in ("valid_fraction", "test_fraction"):
        if not 0 <= getattr(data, name) < 1:
            found.append(f"data.{name}={getattr(data, name)}: must be from 0 up to (not including) 1")
    if data.valid_fraction + data.test_fraction >= 1:
        found.append("data.valid_fraction, data.test_fraction: together they leave nothing to train on")
    for name in ("valid_tokens", "max_rows", "batch_tokens", "length_multiple", "sentences", "stories"):
        at_least(f"data.{name}", getattr(data, name), 1)
    at_least("data.split_seed", data.split_seed, 0)
    at_least("tokenizer.vocab_size", tokenizer.vocab_size, 261 if tokenizer.byte_fallback else 5)
    if not 0 < tokenizer.character_coverage <= 1:
        found.append(f"tokenizer.character_coverage={tokenizer.character_coverage}: must be above 0 and at most 1")
    if not 0 <= tokenizer.sampling <= 1:
        found.append(f"tokenizer.sampling={tokenizer.sampling}: must be between 0 (off) and 1; 0.1 is customary")
    if tokenizer.sampling and task == "gpt":
        found.append("tokenizer.sampling: is for translation; running text is tokenised once")
    if tokenizer.sampling and tokenizer.kind != "unigram":
        found.append(
            f"tokenizer.sampling: needs tokenizer.kind=unigram, which knows other segmentations ({tokenizer.kind} has"
            " one)"
        )
    return found
