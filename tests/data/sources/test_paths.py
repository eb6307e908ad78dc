"""What a path leads to: files that belong together, and files of other kinds."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig
from data.errors import DataError
from data.sources.sources import load
from tests.data.conftest import all_pairs, load_rows, made_pairs, made_text, pairs, texts, tsv, write

PAIRS = made_pairs(40)
EN, JA = ("".join(f"{pair[side]}\n" for pair in PAIRS) for side in (0, 1))
Config = Callable[..., DataConfig]


# Aligned files


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("train.en", "train.ja"),
        ("train.en.txt", "train.ja.txt"),
        ("en_train.txt", "ja_train.txt"),
        ("src-train.txt", "tgt-train.txt"),
        ("train.src", "train.trg"),
        ("source.txt", "target.txt"),
        ("train.en.gz", "train.ja.gz"),
        ("Tatoeba.en-ja.en", "Tatoeba.en-ja.ja"),
        ("eng_Latn.train", "jpn_Jpan.train"),
        ("train.pt-BR", "train.zh_cn"),
    ],
)
@pytest.mark.parametrize("among", ["", "*"])
def test_two_files_that_differ_in_the_language_are_aligned(
    tmp_path: Path, pairs_config: Config, source: str, target: str, among: str
) -> None:
    """Guards Moses, OPUS and OpenNMT names in a folder or a glob, which were read as tables or not at all."""
    for name, text in ((source, EN), (target, JA)):
        write(tmp_path / "c" / name, gzip.compress(text.encode()) if name.endswith("gz") else text)
    for name in ("README", "Tatoeba.en-ja.ids", "Tatoeba.en-ja.xml"):
        write(tmp_path / "c" / name, "x\n" * 40)
    config = pairs_config(tmp_path / "c" / among)
    assert all_pairs(config) == PAIRS
    notes = load(config, "translate").notes
    assert (f"source: {source}, target: {target}" in notes[0]) == (source != "source.txt")


def test_the_languages_may_be_chosen(tmp_path: Path, pairs_config: Config) -> None:
    """Guards the direction that the user wants, and splits in the names of OpenNMT."""
    for name, text in (("src-train", EN), ("tgt-train", JA), ("src-val", "a\n"), ("tgt-val", "b\n")):
        write(tmp_path / "c" / f"{name}.txt", text)
    turned = pairs_config(tmp_path / "c", source_column="tgt", target_column="src")
    assert pairs(turned)[0] == PAIRS[0][::-1]
    assert pairs(turned, "valid") == [("b", "a")]
    assert load(turned, "translate").notes == []
    with pytest.raises(DataError, match=r"one of two aligned files; give both: .*src-train.txt,.*tgt-train.txt"):
        load_rows(pairs_config(tmp_path / "c" / "src-train.txt"), "translate")


def test_tables_of_two_languages_are_not_aligned(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against pairing tables that have both languages each."""
    for name in ("en.txt", "ja.txt", "c.de-en.txt", "c.fr-en.txt"):
        write(tmp_path / name, tsv(PAIRS))
    config = pairs_config(tmp_path)
    assert all_pairs(config) == PAIRS * 4


# Splits of a glob


def test_two_globs_are_assigned_to_splits_too(tmp_path: Path, pairs_config: Config) -> None:
    """Guards `*.en,*.ja` over train, dev and test; the languages are told once."""
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.en", "".join(f"{split} {n}\n" for n in range(9)))
        write(tmp_path / f"{split}.ja", "".join(f"文 {n}\n" for n in range(9)))
    for path in (f"{tmp_path}/*.en,{tmp_path}/*.ja", f"{tmp_path}/*"):
        config = pairs_config(path)
        assert (pairs(config)[0][0], pairs(config, "valid")[0][0]) == ("train 0", "dev 0")
    config = pairs_config(f"{tmp_path}/train.*", valid_path=f"{tmp_path}/dev.*")
    (note,) = load(config, "translate").notes
    assert note.startswith("source: train.en, target: train.ja (the other way")


def test_a_glob_assigns_files_to_splits_by_their_names(tmp_path: Path, text_config: Config) -> None:
    """Guards against training on the test text because of a `*`; folders above the pattern have no part in it."""
    folder = tmp_path / "test" / "books"
    for name in ("train", "valid", "test", "more"):
        write(folder / f"{name}.txt", name * 9)
    config = text_config(folder / "*.txt")
    assert [texts(config, split) for split in ("train", "valid", "test")] == [
        ["train" * 9, "more" * 9],
        ["valid" * 9],
        ["test" * 9],
    ]
    assert (
        "assigned by their names: test: test.txt; train: train.txt, more.txt; valid: val"
        in load(config, "gpt").notes[0]
    )
    held = text_config(folder / "*.txt", valid_path=str(folder / "more.txt"))
    assert (texts(held), texts(held, "valid")) == (["train" * 9], ["more" * 9])
    (note,) = load(text_config(folder / "[mt]*e*.txt"), "gpt").notes
    assert note.endswith("trains on test.txt too; data.valid_path and data.test_path hold files out")
    one = text_config(folder / "t*t.txt")
    assert (texts(one), load(one, "gpt").notes) == (["test" * 8], [])


def test_a_glob_that_matches_one_file_does_not_train_on_the_validation_file(
    tmp_path: Path, text_config: Config
) -> None:
    """Guards `data.path='*.txt' data.valid_path=only.txt`; a path that is a file is trained on as the user says."""
    book = write(tmp_path / "only.txt", made_text(20))
    with pytest.raises(DataError, match=r"data.path=.*\*.txt: no file is left to train on"):
        load_rows(text_config(tmp_path / "*.txt", valid_path=str(book)), "gpt")
    assert texts(text_config(book, valid_path=str(book))) == [made_text(20)]


def test_a_file_is_never_a_glob(tmp_path: Path, text_config: Config, pairs_config: Config) -> None:
    """Guards names of files with the characters of a pattern, of one file and of two aligned ones."""
    for name in ("a[b].txt", "ab.txt", "*.txt", "a?.txt"):
        write(tmp_path / name, f"{name} " * 20)
    for name in ("a[b].txt", "*.txt", "a?.txt"):
        config = text_config(tmp_path / name, valid_path=str(tmp_path / name))
        assert texts(config) == texts(config, "valid") == [f"{name} " * 20]
    for name, text in (("t[1].en", EN), ("t[1].ja", JA), ("t1.en", "x\n"), ("t1.ja", "y\n")):
        write(tmp_path / name, text)
    config = pairs_config(f"{tmp_path}/t[1].en,{tmp_path}/t[1].ja")
    assert all_pairs(config) == PAIRS


# Files of other kinds


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["en.yml", "ja.yml"], "texts with keys, .*a language at the top .*yaml2po -t .*/en.yml .*/ja.yml pairs.po"),
        (["en.json", "ja.json"], "texts with keys, .*json2po -t"),
        (["en.arb"], "texts with keys, .*arb2po -t SOURCE en.arb pairs.po"),
        (
            ["en.lproj/L.strings", "ja.lproj/L.strings"],
            "prop2po --personality=strings --encoding=utf-8 -t .*en.lproj.*ja.lproj",
        ),
        (["a.en.jsonl", "a.ja.jsonl"], "is a table; give one table that has both columns, or two text files"),
        (["a.en.csv", "a.ja.csv"], "is a table; give one table"),
    ],
)
def test_two_files_that_are_no_sentences_by_lines_are_refused(
    tmp_path: Path, pairs_config: Config, names: list[str], message: str
) -> None:
    """Guards against training on keys, quotes and braces: the messages of apps often have equally many lines."""
    for name in names:
        write(tmp_path / name, 'menu: "open"\n' * 40)
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(",".join(str(tmp_path / name) for name in names)), "translate")


@pytest.mark.parametrize(
    ("start", "note"),
    [
        ('<doc id="0" url="x" title="y">', r"has lines <doc …>, which are read as text; grep -v"),
        ("window.YTD.tweets.part0 = [", "looks like JSON and is read as text; to read its columns, name it .json"),
        ("{", "looks like JSON and is read as text"),
        ("Go.\tVa !\n" * 40, "looks like a table and is read as text; to read one of its columns, name it .tsv"),
        ("L1 +++$+++ u0 +++$+++ Hi!\n" * 40, "looks like a table and is read as text"),
    ],
)
def test_notes_on_markup_in_running_text(tmp_path: Path, text_config: Config, start: str, note: str) -> None:
    """Guards marks that a model would learn and write."""
    notes = load(text_config(write(tmp_path / "wiki_00", f"{start}\n{made_text()}")), "gpt").notes
    assert any(note in line for line in notes)


def zipped(*names: str, **contents: str) -> bytes:
    """Return a zip file with these names, or contents."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        for name, content in {**dict.fromkeys(names, "x"), **contents}.items():
            file.writestr(name, content)
    return sink.getvalue()


XML = b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- <html> -->\n'
KINDS = [
    ("a.xlsx", zipped("[Content_Types].xml", "xl/workbook.xml"), "Excel workbook; .*as CSV"),
    ("cut.xlsx", b"PK\x03\x04 cut off", "Excel workbook; .*as CSV"),
    ("a.docx", zipped("[Content_Types].xml", "word/document.xml"), "Word document; .*soffice .*a.docx"),
    ("a.pptx", zipped("ppt/presentation.xml"), "PowerPoint"),
    ("a.epub", zipped(mimetype="application/epub+zip"), "EPUB book; .*pandoc -t plain a.epub"),
    ("a.odt", zipped(mimetype="application/vnd.oasis.opendocument.text"), "OpenDocument text"),
    ("renamed.txt", zipped(mimetype="application/epub+zip"), "EPUB book"),
    ("a.apkg", zipped("collection.anki2", "media"), "Anki deck; in Anki: File > Export"),
    ("a.npz", zipped("x.npy"), "tokens or other numbers"),
    ("a.pt", zipped("archive/data.pkl", "archive/version"), "PyTorch file"),
    ("a.pdf", b"%PDF-1.7\n%\xe2\xe3\n", "PDF document; .*pdftotext a.pdf"),
    ("my book.txt", b"%PDF-1.7\n", "PDF document; .*pdftotext 'my book.txt'"),
    ("a.rtf", b"{\\rtf1\\ansi text}", "RTF document"),
    ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Office document"),
    ("a.db", b"SQLite format 3\0\x10", "SQLite database; .*sqlite3 -header -csv a.db"),
    ("a.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "Git LFS.*git lfs pull"),
    ("a.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "Git LFS.*git lfs pull"),
    ("a.7z", b"7z\xbc\xaf\x27\x1c\0\4", "archive of a kind that is not read; unpack it"),
    ("a.txt.lz4", b"\x04\x22\x4d\x18d@", "unpack it: lz4 -d"),
    ("a.png", b"\x89PNG\r\n\x1a\n", "picture; it has no text"),
    ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF", "picture"),
    ("a.mp3", b"ID3\x03\0\0", "sound recording"),
    ("a.mp4", b"\0\0\0\x18ftypmp42", "video"),
    ("a.pkl", b"\x80\x04\x95\x05", "pickle; .*JSON Lines"),
    ("train.bin", b"\x12\0\x07\0" * 9, "file of tokens .*give the text"),
    ("a.npy", b"\x93NUMPY\x01\0", "tokens or other numbers"),
    ("a.arrow", b"\xff\xff\xff\xff\x18\x01\0\0", "Arrow stream"),
    ("a.safetensors", b'\x40\0\0\0\0\0\0\0{"a":', "weights of a model"),
    ("page.txt", b"\n<!DOCTYPE html>\n<html><body>x", "HTML page; .*pandoc"),
    ("page.html", b"<p>no head", "HTML page"),
    ("a.eaf", XML + b"<ANNOTATION_DOCUMENT a='b'>", "ELAN annotation; .*Export As"),
    ("a.xml", XML + b"<corpus>", r"XML file \(<corpus>\)"),
    ("a.xml.gz", gzip.compress(XML + b"<mediawiki>", mtime=0), "dump of a wiki"),
    ("test.sgm", b'<srcset setid="x">', "test set of WMT.*grep '<seg'"),
    ("a.xml", b"<resources xmlns:a='b'>\n<string name='x'>", "Android app .*android2po -t SOURCE a.xml pairs.po"),
    ("a.ts", XML + b"<!DOCTYPE TS><TS version='2.1'>", "Qt Linguist; .*ts2po a.ts pairs.po"),
    ("a.lrc", b"[00:08.62]a line\n", "song with the times .*sed"),
    ("a.txt", b"\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:02,000\r\nYes.", "subtitles; .*named a.txt.srt"),
    ("a.txt", b"WEBVTT\n\n", "subtitles; "),
    ("a.txt", b"[Script Info]\n", "subtitles; "),
    ("a.txt", b"{0}{72}Yes.\n", "subtitles; "),
    ("a.txt", b'# German\n#\n\nmsgid ""\nmsgstr ""\n', "translations .PO.; .*data=pairs, named a.txt.po"),
    ("a.txt", b"# sent_id = 1\n1" + b"\tA" * 9 + b"\n", "treebank"),
    ("a.txt", b"# text = Du pain.\n1-2\tDu" + b"\t_" * 8 + b"\n1\tDe\n", "treebank"),
    ("a.txt", b"PAR1\x15\x04\x15", "parquet file; name it a.txt.parquet"),
    ("a.mo", b"\xde\x12\x04\x95\0\0\0\0\2\0\0\0", "compiled catalogue .MO.; .*msgunfmt a.mo"),
    ("a.conllu", b"# text = A dog.\n1\tA\ta\tDET\n", "treebank .*sed -n"),
    ("a.ipynb", b'{"cells": []}', "notebook"),
]


@pytest.mark.parametrize(("name", "content", "message"), KINDS)
def test_unsupported_file_kind_error(
    tmp_path: Path, text_config: Config, pairs_config: Config, name: str, content: bytes, message: str
) -> None:
    """Guards against training on markup, and against advice that does not help: as a file, in a folder and a glob."""
    path = write(tmp_path / "c" / name, content)
    for place in (path, path.parent, path.parent / "*"):
        with pytest.raises(DataError, match=rf"{path.parent}.*is an? .*{message}"):
            load_rows(text_config(place), "gpt")
    with pytest.raises(DataError, match=f"is an? .*{message}"):
        load_rows(pairs_config(path), "translate")


@pytest.mark.parametrize(
    "start", ["GGUF is", "BZh9 is", "MZ is", "ID3 is", "Obj", "LZIP", "PAR1", "<unk> <s>", "<doc>", "BM"]
)
def test_text_with_a_binary_like_start_is_read(tmp_path: Path, text_config: Config, start: str) -> None:
    """Guards texts that begin like the signature of a file."""
    text = f"{start} " * 20
    config = text_config(write(tmp_path / "a.txt", text))
    assert texts(config)[0] + texts(config, "valid")[0] == text


def test_a_folder_whose_data_are_deeper_is_explained(tmp_path: Path, text_config: Config, pairs_config: Config) -> None:
    """Guards "the folder is empty", for sub-folders and for a clone from the hub."""
    write(tmp_path / "a" / "one" / "two" / "book.txt", made_text())
    with pytest.raises(DataError, match=r"data in sub-folders \(one/two\).*data.path=.*a/one/two, or a glob"):
        load_rows(text_config(tmp_path / "a"), "gpt")
    for name in ("a.en", "a.ja"):
        write(tmp_path / "moses" / "en-ja" / name, EN)
    with pytest.raises(DataError, match=r"data in sub-folders \(en-ja\)"):
        load_rows(pairs_config(tmp_path / "moses"), "translate")
    for name in ("README.md", "data/train.jsonl", "data/test.jsonl"):
        write(tmp_path / "clone" / name, "x")
    with pytest.raises(DataError, match=r"data.path=.*clone/data, or data=hub data.path=.*clone, or a glob"):
        load_rows(text_config(tmp_path / "clone"), "gpt")
    for name in ("a/one.md", "b/two.md", "b/c.png", ".obsidian/app.json"):
        write(tmp_path / "notes" / name, made_text() if name.endswith("md") else b"\x89PNG")
    with pytest.raises(DataError, match=r"has no data files .*, but 2 named \*.md; .*data.path='(.*)'") as refusal:
        load_rows(text_config(tmp_path / "notes"), "gpt")
    glob = str(refusal.value).rpartition("data.path=")[2].strip("'")
    assert texts(text_config(glob))[0] == made_text()


def test_a_column_that_no_text_has_is_refused(tmp_path: Path, text_config: Config) -> None:
    """Guards against training on raw JSON under another name; the endings of JSON Lines are known."""
    lines = "".join(f'{{"body": "text {n}"}}\n' for n in range(20))
    for name in ("a.jsonlines", "a.jl", "a.ndjson", "a.json.txt", "a.jsonl.txt"):
        assert texts(text_config(write(tmp_path / name, lines), text_column="body"))[0] == "text 0"
    (note,) = load(text_config(write(tmp_path / "b.txt", lines)), "gpt").notes
    assert note == "b.txt: has JSON objects and is read as text; to read one of their columns, name it b.jsonl"
    with pytest.raises(DataError, match=r"data.text_column=body: b.txt is read as running text.*\.jsonl"):
        load_rows(text_config(write(tmp_path / "b.txt", lines), text_column="body"), "gpt")


def test_decks_of_two_languages_are_not_aligned(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Anki's exports, whose first lines are settings: each deck has pairs of its own."""
    for name in ("de", "fr"):
        write(
            tmp_path / f"{name}.txt", "#separator:tab\n#html:false\n" + "".join(f"{a}\t{b}{name}\n" for a, b in PAIRS)
        )
    config = pairs_config(tmp_path / "de.txt")
    assert all_pairs(config) == [(a, f"{b}de") for a, b in PAIRS]


def test_tab_indented_code_is_not_a_table(tmp_path: Path, text_config: Config) -> None:
    """Guards against a wrong note on Go and Makefiles."""
    code = write(tmp_path / "a.txt", "".join(f"\tx{n} := {n}\n" for n in range(60)))
    assert load(text_config(code), "gpt").notes == []
