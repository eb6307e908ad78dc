"""Compressed files, and archives with files in them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from data.config import DataConfig
from data.errors import DataError
from data.sources.sources import load
from tests.data.conftest import all_pairs, load_rows, made_pairs, made_text, pairs, texts, tsv, write

PAIRS = made_pairs(40)
Config = Callable[..., DataConfig]
COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pyarrow.Codec("zstd").compress(content, asbytes=True),
}
EN, JA = ("".join(f"{pair[side]}\n" for pair in PAIRS) for side in (0, 1))


def archive(path: Path, files: dict[str, str | bytes]) -> Path:
    """Write an archive of the kind that its name says."""
    contents = {name: content if isinstance(content, bytes) else content.encode() for name, content in files.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in contents.items():
                zipped.writestr(name, content)
        return path
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    compress = COMPRESS.get(path.suffix[1:].replace("tgz", "gz"), bytes)
    return write(path, compress(sink.getvalue()))


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("streaming", [False, True])
def test_compressed_files_are_read_like_their_content(
    tmp_path: Path, text_config: Config, pairs_config: Config, ending: str, streaming: bool
) -> None:
    """Guards corpora in the form in which they come: text, tables, JSON and aligned files; by path and by folder."""
    compress, text = COMPRESS[ending], made_text(99)
    path = write(tmp_path / "text" / f"book.txt.{ending}", compress(text.encode()))
    for place in (path, path.parent):
        rows = load_rows(text_config(place, streaming=streaming), "gpt")
        assert "".join(row["text"] for split in ("train", "valid") for row in rows[split]) == text
    table = tsv(PAIRS)
    objects = "".join(json.dumps({"source": en, "target": ja}) + "\n" for en, ja in PAIRS)
    for name, content in (("a.tsv", table), ("a.jsonl", objects)):
        config = pairs_config(write(tmp_path / f"{name}.{ending}", compress(content.encode())))
        assert all_pairs(config) == PAIRS
    sides = [write(tmp_path / "m" / f"train.{n}.{ending}", compress(t.encode())) for n, t in (("en", EN), ("ja", JA))]
    config = pairs_config(f"{sides[0]},{sides[1]}")
    assert all_pairs(config) == PAIRS
    config = pairs_config(tmp_path / "m", source_column="ja", target_column="en")
    assert pairs(config)[0] == PAIRS[0][::-1]


@pytest.mark.parametrize("ending", COMPRESS)
def test_damaged_file_error(tmp_path: Path, text_config: Config, ending: str) -> None:
    """Guards against half a corpus after an interrupted download, and against a traceback."""
    packed = COMPRESS[ending](made_text(5000).encode())
    damaged = packed[:3000] + b"\xff\xff\xff\xff" + packed[3004:]
    for content in (packed[: len(packed) // 2], packed[:-1], damaged)[: 2 if ending == "zst" else 3]:  # has no checksum
        path = write(tmp_path / f"book.txt.{ending}", content)
        with pytest.raises(DataError, match=r"book.txt.*damaged or incomplete"):
            load_rows(text_config(path), "gpt")


def test_a_folder_or_a_glob_of_archives_is_read(tmp_path: Path, text_config: Config) -> None:
    """Guards corpora in an archive per split, whose files have other names; plain files come first in a folder."""
    for name in ("train.zip", "dev.tar.gz"):
        archive(tmp_path / "c" / name, {"README": "x", "x/book.txt": name})
    for place in (tmp_path / "c", tmp_path / "c" / "*"):
        config = text_config(place)
        assert (texts(config), texts(config, "valid")) == (["train.zip"], ["dev.tar.gz"])
    write(tmp_path / "c" / "plain.txt", "x" * 20)
    assert texts(text_config(tmp_path / "c")) == ["x" * 18]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.zst", "a.tar.xz"])
def test_an_archive_is_read_like_a_folder(tmp_path: Path, text_config: Config, pairs_config: Config, name: str) -> None:
    """Guards archives of texts with splits in their names or folders, and of a Moses corpus as OPUS packs it."""
    books = archive(
        tmp_path / "books" / name, {"c/train/a.txt": "a" * 50, "c/train/b.txt": "b" * 50, "c/dev/x.txt": "x"}
    )
    assert texts(text_config(books)) == ["a" * 50, "b" * 50]
    assert texts(text_config(books), "valid") == ["x"]
    corpus = {"x/README": "OPUS", "x/X.en-ja.en": EN, "x/X.en-ja.ja": JA, "x/X.en-ja.ids": "1\n" * 40, ".hidden": "x"}
    config = pairs_config(archive(tmp_path / "moses" / name, corpus))
    assert all_pairs(config) == PAIRS
    (note,) = load(config, "translate").notes
    assert note.startswith("source: X.en-ja.en, target: X.en-ja.ja")
    other = pairs_config(config.path, source_column="ja", target_column="en", valid_path=config.path)
    assert pairs(other) == pairs(other, "valid") == [(ja, en) for en, ja in PAIRS]


def test_archive_paths_stay_inside_the_cache(tmp_path: Path, text_config: Config) -> None:
    """Guards against archives with names that lead out of the folder, and with links."""
    evil = {"../../../evil.txt": "evil " * 20, "/evil2.txt": "evil " * 20}
    archive(tmp_path / "a.zip", evil)
    assert texts(text_config(tmp_path / "a.zip")) == ["evil " * 20, ("evil " * 20)[:80]]
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        link = tarfile.TarInfo("book.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"no data files|empty"):
        load_rows(text_config(tmp_path / "b.tar"), "gpt")
    result = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")}
    assert result == {"a.zip", "b.tar", "cache"}


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.txt.zst", "a.zip", "a.tar.gz"])
def test_decompression_bomb_is_refused(
    tmp_path: Path, text_config: Config, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against decompression bombs; nothing of them stays in the cache."""
    monkeypatch.setattr("data.sources.compressed._ALWAYS", 1 << 20)
    content = b"x" * (1 << 21)
    single = name.startswith("a.txt")
    path = (
        write(tmp_path / name, COMPRESS[name[6:]](content)) if single else archive(tmp_path / name, {"a.txt": content})
    )
    with pytest.raises(DataError, match=r"unpacks to more than .* times its size"):
        load_rows(text_config(path), "gpt")
    assert [file for file in (tmp_path / "cache").rglob("*") if file.is_file() and file.suffix != ".lock"] == []


def test_archives_that_cannot_be_unpacked_are_explained(tmp_path: Path, text_config: Config) -> None:
    """Guards half an archive, one with a password, and a folder of archives."""
    whole = archive(tmp_path / "a.tar.gz", {"a.txt": made_text(5000)}).read_bytes()
    with pytest.raises(DataError, match=r"b.tar.gz: the .* damaged or incomplete"):
        load_rows(text_config(write(tmp_path / "b.tar.gz", whole[: len(whole) // 2])), "gpt")
    whole = archive(tmp_path / "a.zip", {"a.txt": made_text(5000)}).read_bytes()
    with pytest.raises(DataError, match=r"b.zip: the archive is damaged or incomplete"):
        load_rows(text_config(write(tmp_path / "b.zip", whole[: len(whole) // 2])), "gpt")
    locked = bytearray(whole)
    for header in (b"PK\x03\x04", b"PK\x01\x02"):
        locked[locked.index(header) + (6 if header[2] == 3 else 8)] |= 1  # the flag of a password
    with pytest.raises(DataError, match=r"c.zip: cannot be unpacked .*password"):
        load_rows(text_config(write(tmp_path / "c.zip", bytes(locked))), "gpt")
    with pytest.raises(DataError, match=r"d.zip: the archive is empty"):
        load_rows(text_config(archive(tmp_path / "d.zip", {})), "gpt")
    wrong = archive(tmp_path / "e.zip", {"README": "x", "book.pdf": b"%PDF-1.4 x"})
    with pytest.raises(
        DataError, match=r"e.zip: has no data files, and book.pdf is a PDF document; .*pdftotext book.pdf"
    ):
        load_rows(text_config(wrong), "gpt")


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_long_archive_names_stay_distinct(tmp_path: Path, text_config: Config, ending: str) -> None:
    """Guards books named by title and author: cut names lost their ending, and equal ones wrote over each other."""
    long = "The collected letters of a well-known author to his many friends " * 3
    files = {f"{long}{n}.txt": f"book {n} {'x' * 200}\n" for n in "12"} | {f"{long * 2}{n}.txt": f"{n}\n" for n in "34"}
    config = text_config(archive(tmp_path / f"a.{ending}", files), valid_path=str(write(tmp_path / "v.txt", "v")))
    assert sorted(texts(config)) == sorted(files.values())
