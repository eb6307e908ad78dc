"""Load the rows of any source - files, URLs, the hub, the built-in corpus - as Datasets with uniform column names."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from data.cache_folders import CORPUS, cache_folder, cached_folder, content_key, read_prepared
from data.config import HUB_ONLY, DataConfig
from data.cpu_cores import uncollected
from data.errors import DataError
from data.sources.arrow_file import arrow_table
from data.sources.compressed import plain_name
from data.sources.files import Located, locate
from data.sources.formats.subtitles import subtitle_rows
from data.sources.formats.table_dialect import Dialect, recognised
from data.sources.formats.translation_files import translation_rows
from data.sources.hub import hub_content, hub_splits
from data.sources.json_rows import json_rows
from data.sources.parquet_rows import parquet_rows
from data.sources.row_checks import Row, without_empty_sides
from data.sources.running_text import chunks, documents, fragments, paragraphs, separator_note, text_lines
from data.sources.split_checks import same_files, split_notes
from data.sources.splits import contiguous_bounds, fractions, split_rows
from data.sources.tables import aligned_rows, default_columns_note, dialect_notes, pick, table_rows, wanted_columns
from data.sources.text_files import TextFile, scan

if TYPE_CHECKING:
    from datasets import Dataset

_IN_MEMORY = 1 << 29  # characters held in memory as whole documents (an Arrow string ends at 2^31 bytes)
_FRAGMENT = 1 << 14  # characters of a document that are streamed as one row
_PRIMER_ROWS = 1000  # rows per Arrow table, few enough that the worker processes hardly wait for it
_PLACES = ("cache", "path", "valid_path", "test_path")
_NO_CONTENT = (*_PLACES, *HUB_ONLY, "valid_tokens", "batch_tokens", "length_multiple", "both_directions")
"""Settings that are no part of the key: they do not change the rows, or `hub_content` stands for them."""

Build = Callable[[list[str], Path | None], dict[str, Any]]
"""Builds the rows of each split. Arguments: the list of notes to extend, and a folder for tables (None: stream)."""


@dataclass
class Rows:
    """All splits of a corpus, opened on first access."""

    names: list[str]
    """Split names."""

    key: str
    """Hash of the content."""

    notes: list[str]
    """What was skipped, one line each."""

    open: Callable[[str], Any]
    """Open the Dataset (streaming: IterableDataset) of a split."""

    gold: bool = False
    """Whether the rows have gold columns (see `Prepared.gold`)."""

    def __getitem__(self, split: str) -> Any:
        return self.open(split)


def load(config: DataConfig, task: str, *, needs_valid: bool = True) -> Rows:
    """Load the rows of each existing split: `train`, `valid`, `test` (built-in corpus: also `novel`). They are kept in
    `config.cache`, unless streamed.

    `task` gpt: column `text` (streamed documents are split into parts of a few pages; the column `document` holds the
    index); translate: columns `source` and `target`, stripped and never empty. The built-in corpus adds its gold
    columns. needs_valid: whether a corpus without validation data is an error, as for training. Raises DataError naming
    file, line, key and fix.
    """
    settings = {name: value for name, value in asdict(config).items() if name not in _NO_CONTENT}
    notes: list[str] = []
    build: Build
    if config.source in ("text", "pairs"):
        located = locate(config, task)
        notes += located.notes
        if located.format not in ("csv", "tsv") and (config.separator or config.quoting):
            raise DataError(f"data.separator, data.quoting: are for CSV and TSV, but {config.path} is {located.format}")
        files = _scanned(located, config)
        content = {split: [[file.sha256 for file in entry] for entry in entries] for split, entries in files.items()}
        key = content_key(task=task, format=located.format, content=content, **settings)
        build = partial(_file_splits, config, task, located.format, files)
    elif config.source == "hub":
        key = content_key(task=task, name=config.path, **hub_content(config), **settings)
        build = partial(_hub_rows, config, task)
    else:
        key = content_key(task=task, corpus=CORPUS, **settings)
        build = partial(_primer_rows, config, task)
    if config.streaming:
        notes += same_files(files) if config.source in ("text", "pairs") else []
        splits = _checked(build(notes, None), needs_valid)
        return Rows(list(splits), key, notes, splits.__getitem__)
    stored = _stored(build, key, config, needs_valid)
    return replace(stored, notes=notes + stored.notes, gold=config.source == "primer")


def _stored(build: Build, key: str, config: DataConfig, needs_valid: bool) -> Rows:
    def write(folder: Path) -> None:
        notes: list[str] = []
        with TemporaryDirectory(dir=folder) as scratch:
            splits = _checked(build(notes, Path(scratch)), needs_valid)
            notes += split_notes(splits, config) if config.source != "primer" else []
            with _no_progress_bars():
                for split, rows in splits.items():
                    rows.save_to_disk(str(folder / split))
        (folder / "rows.json").write_text(json.dumps({"splits": list(splits), "notes": notes}), "utf-8")

    folder = cached_folder(cache_folder(config, "rows"), key, write)
    prepared = read_prepared(folder / "rows.json")
    _check_names(prepared["splits"], needs_valid)
    return Rows(prepared["splits"], key, prepared["notes"], partial(_open_stored, folder))


@cache
def _open_stored(folder: Path, split: str) -> Dataset:
    import datasets  # takes half a second; not needed if everything is prepared

    return datasets.Dataset.load_from_disk(str(folder / split))


def _checked(splits: dict[str, Any], needs_valid: bool) -> dict[str, Any]:
    _check_names(splits, needs_valid)
    return {split: splits[split] for split in ("train", "valid", "test", "novel") if split in splits}


def _check_names(splits: Container[str], needs_valid: bool) -> None:
    if needs_valid and "valid" not in splits:
        raise DataError(
            "no validation data: set data.valid_fraction above 0, give data.valid_path, "
            "or put a file named valid.* in the folder of data.path"
        )


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    from datasets.utils import disable_progress_bars, enable_progress_bars, is_progress_bar_enabled

    enabled = is_progress_bar_enabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if enabled:
            enable_progress_bars()


# Files


def _scanned(located: Located, config: DataConfig) -> dict[str, list[list[TextFile]]]:
    """Scan all files that are needed. Raises DataError for files that are not UTF-8, empty or not aligned."""
    memory = cache_folder(config, "scans")
    text = located.format not in ("parquet", "translations")
    documents_alone = located.format == "text" and config.rows == "document"
    splits = dict(located.splits)
    if documents_alone and "train" in splits:
        splits["train"] = splits["train"][: _rows_to_read(config, list(splits))]
    files = {
        split: [[scan(path, memory, text, config.encoding) for path in entry] for entry in entries]
        for split, entries in splits.items()
    }
    for entry in chain.from_iterable(files.values()):
        if located.format == "aligned" and entry[0].lines != entry[1].lines:
            raise DataError(
                f"{entry[0].path} has {entry[0].lines:,} lines but {entry[1].path} has {entry[1].lines:,}: "
                "aligned files need a translation on the same line; find where they diverge and fix it"
            )
    return files


def _rows_to_read(config: DataConfig, present: Sequence[str]) -> int | None:
    """Return the number of training rows to read; None for all, if validation or test is split off them."""
    return None if fractions(config, present) else config.max_rows


def _file_splits(
    config: DataConfig,
    task: str,
    kind: str,
    files: dict[str, list[list[TextFile]]],
    notes: list[str],
    scratch: Path | None,
) -> dict[str, Any]:
    if kind == "text":
        notes += separator_note(chain.from_iterable(chain.from_iterable(files.values())))
    if kind == "text" and config.rows == "document":
        return _document_splits(
            config, {split: [file for (file,) in entries] for split, entries in files.items()}, scratch
        )
    sources = {split: partial(_file_rows, config, task, kind, entries) for split, entries in files.items()}
    first_files = next(iter(files.values()))[0]  # of the training split, unless a test file is alone
    languages: tuple[str, str] | None = None
    if kind == "aligned":
        first, second = (plain_name(Path(file.path)).suffix for file in first_files)
        languages = first, second
    splits = _row_splits(sources, config, task, notes, scratch, languages)
    if kind in ("tsv", "csv"):
        tables = [(file, kind, _dialect(file, kind, config)) for (file,) in chain.from_iterable(files.values())]
        notes += dialect_notes(tables, config.header)
        if scratch and not config.header:
            row = next(without_empty_sides(next(iter(sources.values()))(), task, "", []))
            dialect = _dialect(first_files[0], kind, config)
            notes += default_columns_note(wanted_columns(config, task), row, dialect)
    return splits


def _dialect(file: TextFile, kind: str, config: DataConfig) -> Dialect:
    return recognised(file, kind, config.separator, config.quoting)


def _tables(sources: dict[str, Iterator[Row]], folder: Path) -> dict[str, Dataset]:
    return {split: arrow_table(rows, folder / f"{split}.arrow", f"reading {split}") for split, rows in sources.items()}


def _document_splits(config: DataConfig, files: dict[str, list[TextFile]], scratch: Path | None) -> dict[str, Any]:
    """Split documents of running text: contiguously by characters, even within a document, or at random by files."""
    shares = fractions(config, list(files))
    spans = {split: (texts, 0, sum(file.characters for file in texts)) for split, texts in files.items()}
    random = bool(shares) and config.split == "random"
    if shares and not random:
        total = spans["train"][2]
        for split, (start, stop) in contiguous_bounds(total, shares).items():
            if start == stop:
                raise DataError(
                    f"data.path: the text is too short ({total} characters) to split off {', '.join(shares)}"
                )
            spans[split] = files["train"], start, stop
    if config.max_rows is not None and not random and "train" in spans:
        chosen, begin, end = spans["train"]
        spans["train"] = chosen, begin, min(end, sum(file.characters for file in chosen[: config.max_rows]))
    if scratch is None:
        import datasets

        stream = datasets.IterableDataset.from_generator
        return {split: stream(_fragment_rows, gen_kwargs={"span": span}) for split, span in spans.items()}
    if sum(stop - start for _, start, stop in spans.values()) > _IN_MEMORY:
        raise DataError("data.path: too much text to hold whole documents in memory: set data.streaming=true")
    rows = _tables({split: ({"text": text} for text in documents(*span)) for split, span in spans.items()}, scratch)
    return _split(rows, config, shares) if random else rows


def _fragment_rows(span: tuple[list[TextFile], int, int]) -> Iterator[Row]:
    """Yield rows of about `_FRAGMENT` characters of one document: one row per line would be slower than tokenising."""
    for document, parts in groupby(fragments(*span), key=itemgetter(0)):
        for part in chunks(parts, lambda part: len(part[1]), _FRAGMENT + 1):
            yield {"text": "".join(text for _, text in part), "document": document}


def _file_rows(config: DataConfig, task: str, kind: str, entries: list[list[TextFile]]) -> Iterator[Row]:
    """Yield rows with our columns from files of one kind."""
    if kind == "text":
        files = [file for (file,) in entries]
        for text in paragraphs(files) if config.rows == "paragraph" else text_lines(files):
            yield {"text": text}
        return
    columns = wanted_columns(config, task)
    for entry in entries:
        if kind == "aligned":
            yield from aligned_rows(*entry)
        elif kind == "subtitles":
            yield from subtitle_rows(*entry)
        elif kind == "translations":
            yield from translation_rows(Path(entry[0].path), columns)
        elif kind in ("tsv", "csv"):
            yield from table_rows(entry[0], _dialect(entry[0], kind, config), columns, config.header)
        elif kind == "json":
            yield from json_rows(entry[0], columns)
        else:
            yield from parquet_rows(Path(entry[0].path), columns)


def _row_splits(
    sources: Mapping[str, Callable[[], Iterator[Row]]],
    config: DataConfig,
    task: str,
    notes: list[str],
    scratch: Path | None,
    languages: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the non-empty rows of each split, with only the required training rows: tables in `scratch`, or streamed
    rows, which are counted first if validation or test is split off them."""
    shares = fractions(config, list(sources))
    most = {"train": _rows_to_read(config, list(sources))}
    if scratch:
        languages = languages or (config.source_column, config.target_column)
        checked_rows = {
            split: without_empty_sides(read(), task, split, notes, most.get(split), languages)
            for split, read in sources.items()
        }
        return _split(_tables(checked_rows, scratch), config, shares)
    import datasets

    rows = {
        split: datasets.IterableDataset.from_generator(_rows_of, gen_kwargs={"source": source})
        for split, source in sources.items()
    }
    # One more pass over the text: empty rows are counted before the stream, which cannot report them, begins.
    totals = {
        split: sum(1 for _ in without_empty_sides(source(), task, split, notes, most.get(split)))
        for split, source in sources.items()
    }
    if "train" not in rows:
        return rows
    if shares:
        whole, total = rows.pop("train"), totals["train"]
        for split, (start, stop) in contiguous_bounds(total, shares).items():
            rows[split] = whole.skip(start).take(stop - start)
    if config.max_rows is not None:
        rows["train"] = rows["train"].take(config.max_rows)
    return rows


def _rows_of(source: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    yield from without_empty_sides(source(), "gpt", "", [])


def _split(tables: dict[str, Dataset], config: DataConfig, shares: dict[str, float]) -> dict[str, Dataset]:
    """Split validation and test off the training rows; the first `max_rows` of the rest are kept."""
    if "train" not in tables:
        return tables
    splits = split_rows(tables.pop("train"), config, shares) | tables
    if config.max_rows is not None:
        splits["train"] = splits["train"].select(range(min(config.max_rows, len(splits["train"]))))
    return splits


# Hub and built-in corpus


def _hub_rows(config: DataConfig, task: str, notes: list[str], scratch: Path | None) -> dict[str, Any]:
    sources = {split: partial(_picked, rows, config, task) for split, rows in hub_splits(config, notes).items()}
    return _row_splits(sources, config, task, notes, scratch)


def _picked(rows: Iterable[Row], config: DataConfig, task: str) -> Iterator[Row]:
    columns = wanted_columns(config, task)
    for row in rows:
        yield pick(row, columns, f"the hub dataset {config.path}")


def _primer_rows(config: DataConfig, task: str, notes: list[str], scratch: Path | None) -> dict[str, Any]:
    import datasets
    import pyarrow

    from data.primer.corpus import Exhausted, numbered

    spans = pyarrow.list_(pyarrow.list_(pyarrow.int64()))
    strings = pyarrow.list_(pyarrow.string())
    others = {"words": pyarrow.list_(spans)} | dict.fromkeys(("referents", "names", "turn_questions"), strings)
    others |= dict.fromkeys(("alignment", "antecedents", "mentions", "turns", "questions"), spans)
    shares: dict[str, list[Row]] = defaultdict(list)
    tables: dict[str, list[pyarrow.Table]] = defaultdict(list)

    def store(split: str) -> None:
        share = shares.pop(split)
        schema = pyarrow.schema([(name, others.get(name, pyarrow.string())) for name in share[0]])
        tables[split].append(pyarrow.Table.from_pylist(share, schema))

    kind, count = ("stories", config.stories) if task == "gpt" else ("sentences", config.sentences)
    with uncollected():
        try:
            for _, row in numbered(kind, count, config.split_seed):
                split = row.pop("split")
                shares[split].append(row)
                if len(shares[split]) == _PRIMER_ROWS:
                    store(split)
        except Exhausted as error:
            raise DataError(f"data.{kind}={count}: {error}; set a smaller number") from error
        for split in list(shares):
            store(split)
    joined = {split: datasets.table.InMemoryTable(pyarrow.concat_tables(parts)) for split, parts in tables.items()}
    return _split({split: datasets.Dataset(rows) for split, rows in joined.items()}, config, {})
