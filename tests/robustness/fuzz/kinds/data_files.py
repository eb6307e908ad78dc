"""Data files of every format, from a few damaged lines to foreign bytes, and the settings that read them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets  # noqa: F401 - half a second, once instead of in every child
import pyarrow
import pyarrow.parquet
from hypothesis import strategies as st

from configs.errors import UserError
from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from tests.robustness.fuzz.damage import cut, cuts
from tests.robustness.fuzz.values import NASTY_BYTES, raw
from training.config import TrainConfig, problems

GOOD = [(f"The cat number {n} sat down.", f"猫{n}が座った。") for n in range(30)]

CELLS: tuple[Any, ...] = (
    *(None, 0, 1.5, True, -(2**63), 2**70, float("nan"), float("inf"), [], ["a"], [[1]], {}, {"text": "a"}),
    *("", " ", "text", "注目", "2020-01-01", "1e5", "\ud800", "\0", "e\u0301", "x" * 5000),
    {"source": "a", "target": {"x": 1}},
)

COLUMNS = ("source", "target", "text", "translation.en", "1", "2", "0", "99", "-1", "", ".", "a.b", "²", "注目", "id")


@dataclass(frozen=True)
class DataFiles:
    """Files, and the settings that read them."""

    task: str
    files: tuple[tuple[str, bytes], ...]
    settings: tuple[tuple[str, Any], ...]
    odd: str = ""
    """A special file to add: `fifo`, `loop`, `folder`, `unreadable`, `dangling`."""

    def prepare(self, folder: Path) -> None:
        """Write the files."""
        place = folder / "data"
        place.mkdir()
        for name, content in self.files:
            (place / name).write_bytes(content)
        odd = place / f"train.{'txt' if self.task == 'gpt' else 'tsv'}"
        if odd.exists() or odd.is_symlink():
            odd = place / f"valid{odd.suffix}"
        if self.odd:
            odd.unlink(missing_ok=True)
        match self.odd:
            case "fifo":
                os.mkfifo(odd)
            case "loop":
                odd.symlink_to(odd.name)
                (place / "inner").symlink_to(".")
            case "dangling":
                odd.symlink_to("nothing")
            case "folder":
                odd.mkdir()
            case "device":
                odd.symlink_to("/dev/zero")

    def act(self) -> None:
        """Prepare the data, and draw a batch and an evaluation."""
        source = "text" if self.task == "gpt" else "pairs"
        config = replace(DataConfig(source=source, path="data"), **dict(self.settings), cache=".cache")
        tokenizer = TokenizerConfig()
        if result := problems(TrainConfig(task=self.task, data=config, tokenizer=tokenizer)):
            raise UserError(*result)
        data = prepare(self.task, config, tokenizer, 64, 1)
        data.training(2 if self.task == "gpt" else 64).next_batch()
        for split in data.splits:
            for _ in data.evaluation(split, 64):
                pass
            data.bytes(split)


def tsv(rows: list[list[bytes]], separator: bytes = b"\t", end: bytes = b"\n") -> bytes:
    """Return a table without quoting."""
    return b"".join(separator.join(row) + end for row in rows)


known = st.sampled_from([text.encode() for pair in GOOD[:3] for text in pair])
valid = [unit for unit in NASTY_BYTES if unit.decode("utf-8", "ignore").encode() == unit]
others = {0: raw, 1: st.sampled_from(valid), 2: st.text(max_size=12).map(str.encode)}
cell = st.integers(0, 19).flatmap(lambda chance: others.get(chance, known))
table = st.builds(
    tsv,
    st.lists(st.lists(cell, min_size=2, max_size=4), max_size=5).map(
        lambda rows: [*rows, *([a.encode(), b.encode()] for a, b in GOOD)]
    ),
    st.sampled_from((b"\t", b"\t", b",", b"\t\t")),
    st.sampled_from((b"\n", b"\r\n", b"\r", b"\n\n", b"")),
)


def json_lines(rows: list[Any], end: str) -> bytes:
    """Return rows as JSON Lines; lone surrogates stay escapes."""
    return end.join(json.dumps(row) for row in rows).encode()


json_rows = st.builds(
    json_lines,
    st.lists(
        st.one_of(
            st.fixed_dictionaries(
                {name: st.sampled_from(CELLS) | st.just("some text") for name in ("text", "source", "target")}
            ),
            st.sampled_from(CELLS),
            st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(CELLS), max_size=3),
        ),
        max_size=4,
    ).map(lambda rows: [*({"text": a, "source": a, "target": b} for a, b in GOOD), *rows][::-1]),
    st.sampled_from(("\n", "\n\n", "\r\n", ",", " ")),
)


def parquet(column: list[Any], names: tuple[str, ...], compression: str) -> bytes:
    """Return a parquet file whose columns all have these values, or as JSON texts if they have no common type."""
    try:
        array = pyarrow.array(column)
    except (pyarrow.ArrowException, UnicodeError, OverflowError, TypeError):
        array = pyarrow.array([json.dumps(value) for value in column])
    sink = io.BytesIO()
    try:
        pyarrow.parquet.write_table(pyarrow.table(dict.fromkeys(names, array)), sink, compression=compression)
    except pyarrow.ArrowException:
        return b"PAR1"
    return sink.getvalue()


parquet_files = st.builds(
    parquet,
    st.one_of(
        st.lists(st.sampled_from(CELLS), max_size=5),
        st.just([a for a, _ in GOOD]),
        st.just([a.encode() for a, _ in GOOD]),
        st.just(list(range(30))),
        st.just([{"en": a, "ja": b} for a, b in GOOD]),
    ),
    st.sampled_from((("text",), ("source", "target"), ("text", "source", "target"), ("translation",), ("other",))),
    st.sampled_from(("none", "snappy", "gzip", "zstd")),
)


def dialect(rows: list[list[str]], separator: str, quoting: int, start: str) -> bytes:
    """Return a table as programs write it, sometimes after the header of an Anki export."""
    sink = io.StringIO()
    csv.writer(sink, delimiter=separator, quoting=quoting, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    return (start + sink.getvalue()).encode("utf-8", "replace")


dialects = st.builds(
    dialect,
    st.lists(
        st.lists(st.sampled_from(('"', 'a "b"', "x, y", "a;b", "two\nlines", "\t", "")), min_size=2, max_size=3),
        max_size=4,
    ).map(lambda rows: [*rows, *map(list, GOOD)]),
    st.sampled_from(",;\t|"),
    st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
    st.sampled_from(("", "", "#separator:tab\n#html:true\n", "#separator:;\n#columns:a;b\n#deck column:99\n", '"')),
)

json_shapes = st.sampled_from(
    [
        {"data": [{"text": a, "source": a, "target": b} for a, b in GOOD]},
        {"text": [a for a, _ in GOOD], "source": [a for a, _ in GOOD], "target": [b for _, b in GOOD]},
        {"text": {"0": "a"}, "source": {"0": None}, "target": {"0": [1]}},
        {"a": [{"messages": [{"role": "user", "content": "Hi"}]}], "b": [{"text": "x"}]},
        [{"conversations": [{"from": 1, "value": None}]}],
        {"a": {"b": {"c": [{"text": "x", "source": "x", "target": "x"}]}}},
    ]
).flatmap(lambda value: st.sampled_from((None, 2)).map(lambda indent: json.dumps(value, indent=indent).encode()))

TMX = "".join(
    f'<tu><tuv xml:lang="en"><seg>{a}<ph>x</ph></seg></tuv><tuv xml:lang="ja"><seg>{b}</seg></tuv></tu>'
    for a, b in GOOD
)
TRANSLATIONS = {
    "tmx": f'<tmx version="1.4"><header srclang="en"/><body>{TMX}</body></tmx>',
    "po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    + "".join(f'msgid "{a}"\nmsgstr "{b}"\n\n' for a, b in GOOD),
    "srt": "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n{a}\n\n" for n, (a, _) in enumerate(GOOD)),
}


def zipped(content: bytes) -> bytes:
    """Return a zip archive with one file."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../evil.txt", content)
    return sink.getvalue()


def tarred(content: bytes) -> bytes:
    """Return a tar archive with one file and a link."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        member, link = tarfile.TarInfo("../train.txt"), tarfile.TarInfo("evil.txt")
        member.size, link.type, link.linkname = len(content), tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member, io.BytesIO(content))
        archive.addfile(link)
    return sink.getvalue()


@st.composite
def damaged(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> bytes:
    """Return file contents, sometimes with bytes changed, cut off, packed, or in another encoding."""
    content = draw(contents)
    match draw(st.integers(0, 20)):
        case 0 | 1:
            return cut(content, draw(cuts))
        case 2:
            return draw(st.sampled_from((gzip.compress, zipped)))(content)
        case 3:
            encoding = draw(st.sampled_from(("utf-16", "utf-16-le", "utf-32", "utf-8-sig")))
            return content.decode("utf-8", "replace").encode(encoding)
    return content


running = st.lists(cell, max_size=10).map(
    lambda parts: b" ".join(parts) + "".join(f"{a}\n" for a, _ in GOOD).encode() * 2
)
lone = st.one_of(
    raw, st.sampled_from((b"", b"\n", b"\xef\xbb\xbf", b"x", b"\0" * 100, b"x" * 100_000, "猫".encode() * 40_000))
)
long_line = st.sampled_from((b"x", "猫 ".encode(), b"\t", b"\r", b"a\tb")).map(
    lambda unit: unit * 200_000 + b"\ta\nb\tc\n" * 30
)

CONTENTS = {
    "tsv": table | long_line | dialects,
    "csv": table | long_line | dialects,
    "txt": running | table | long_line,
    "jsonl": json_rows,
    "json": json_rows | json_rows.map(lambda content: b"[" + content.replace(b"\n", b",") + b"]") | json_shapes,
    "parquet": parquet_files,
    "bin": lone,
    "txt.gz": running.map(gzip.compress),
    "jsonl.gz": json_rows.map(gzip.compress),
    "txt.xz": running.map(lzma.compress),
    "txt.zst": running.map(lambda content: pyarrow.Codec("zstd").compress(content, asbytes=True)),
    "zip": running.map(zipped),
    "tar.gz": running.map(lambda content: gzip.compress(tarred(content))),
    "en": running,
    **{suffix: st.just(content.encode()) for suffix, content in TRANSLATIONS.items()},
}
"""Contents by suffix. The file may also have any of the other suffixes."""

settings = st.fixed_dictionaries(
    {},
    optional={
        "text_column": st.just("text") | st.sampled_from(COLUMNS),
        "source_column": st.just("source") | st.sampled_from(COLUMNS),
        "target_column": st.just("target") | st.sampled_from(COLUMNS),
        "header": st.booleans(),
        "separator": st.sampled_from(("comma", "tab", ";", "|")),
        "quoting": st.sampled_from(("csv", "none")),
        "rows": st.sampled_from(("document", "paragraph", "line")),
        "split": st.sampled_from(("contiguous", "random", "components")),
        "valid_fraction": st.sampled_from((0.1, 0.1, 0.3, 0.5, 0.0, 0.99, 1e-9)),
        "test_fraction": st.sampled_from((0.0, 0.1, 0.5)),
        "valid_tokens": st.sampled_from((None, 1, 5, 10**9)),
        "max_rows": st.sampled_from((None, 1, 5, 10**9)),
        "streaming": st.booleans(),
        "batch_tokens": st.sampled_from((1, 7, 64)),
        "length_multiple": st.sampled_from((1, 3, 64)),
    },
)


SUITED = {
    "gpt": ("txt", "txt", "jsonl", "json", "parquet", "csv", "txt.gz", "txt.zst", "zip", "tar.gz"),
    "translate": ("tsv", "tsv", "csv", "csv", "jsonl", "json", "parquet", "txt", "tmx", "po"),
}


@st.composite
def cases(draw: st.DrawFn) -> DataFiles:
    """Return one file and the settings that read it, or several files in a folder and any path."""
    task = draw(st.sampled_from(("gpt", "translate")))
    chosen = dict(draw(settings))
    if chosen:
        keys = draw(st.lists(st.sampled_from(sorted(chosen)), max_size=3, unique=True))
        chosen = {key: chosen[key] for key in keys}
    if draw(st.integers(0, 3)):
        suffix = draw(st.sampled_from(SUITED[task]))
        content = draw(damaged(CONTENTS["tsv" if (task, suffix) == ("translate", "txt") else suffix]))
        chosen["path"] = f"data/a.{suffix}"
        return DataFiles(task, ((f"a.{suffix}", content),), tuple(sorted(chosen.items())))
    files = {}
    for _ in range(draw(st.integers(1, 3))):
        suffix = draw(st.sampled_from(tuple(CONTENTS)))
        content = draw(lone if draw(st.integers(0, 9)) == 0 else damaged(CONTENTS[suffix]))
        shown = draw(st.sampled_from((suffix,) * 20 + tuple(CONTENTS)))
        name = draw(st.sampled_from(("train", "train", "valid", "a", "book [1]", "test.x", "*", "ü\n", "a,b", "-x")))
        files[f"{name}.{shown}"] = content
    names = list(files)
    paths = ("data", "data", "data/*", "data/**", f"data/{names[0]}", f"data/{names[0]},data/{names[-1]}")
    chosen["path"] = draw(st.sampled_from((*paths, "data/nothing", "data/../data", "data/inner/inner")))
    for key in ("valid_path", "test_path"):
        if draw(st.integers(0, 5)) == 0:
            chosen[key] = draw(st.sampled_from(paths))
    odd = draw(st.sampled_from(("",) * 6 + ("fifo", "loop", "dangling", "folder", "device")))
    return DataFiles(task, tuple(files.items()), tuple(sorted(chosen.items())), odd)
