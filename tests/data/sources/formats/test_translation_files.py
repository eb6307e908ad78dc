"""Translators' files are read as pairs; as running text they are refused."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig
from data.errors import DataError
from data.sources.sources import load
from tests.data.conftest import all_pairs, load_rows, write

Config = Callable[..., DataConfig]

PAIRS = [(f"Hello {n} & you", f"Hallo {n} & du") for n in range(20)]
NAMED = {"source_column": "en", "target_column": "de"}


def escaped(text: str) -> str:
    """Return text as it stands in XML."""
    return text.replace("&", "&amp;")


def tmx(pairs: list[tuple[str, str]], languages: tuple[str, str] = ("en-US", "de"), start: str = "") -> str:
    """Return a translation memory whose units hold the target first, with codes of the document in the source."""
    code = '<bpt i="1">&lt;b></bpt>{}<ept i="1">&lt;/b></ept>'
    units = "".join(
        f'<tu><prop type="x">p</prop><tuv xml:lang="{languages[1]}"><seg>{escaped(b)}</seg></tuv>\n'
        f'<tuv xml:lang="{languages[0]}"><seg>{code.format(escaped(a))}</seg></tuv></tu>\n'
        for a, b in pairs
    )
    header = f'<header srclang="{languages[0]}" segtype="sentence"/>'
    return f'\n<?xml version="1.0"?>{start}<tmx version="1.4">{header}<body>{units}</body></tmx>'


def xliff(pairs: list[tuple[str, str]]) -> str:
    """Return an XLIFF 1.2 file with an inline element and an untranslated unit."""
    units = "".join(
        f'<trans-unit id="{n}"><source>{escaped(a)}<ph id="1">&lt;br/></ph></source>'
        f'<target><g id="1">\n  {escaped(b)}</g></target>'
        "<alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>"
        for n, (a, b) in enumerate(pairs)
    )
    file = '<file original="a" datatype="plaintext" source-language="en" target-language="de">'
    return (
        f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">{file}<body>{units}'
        '<trans-unit id="x"><source>new</source></trans-unit></body></file></xliff>'
    )


def xliff2(pairs: list[tuple[str, str]]) -> str:
    """Return an XLIFF 2.0 file."""
    units = "".join(
        f'<unit id="{n}"><segment><source><pc id="1">{escaped(a)}</pc></source>'
        f'<target>{escaped(b)}<ph id="2"/></target></segment></unit>'
        for n, (a, b) in enumerate(pairs)
    )
    return (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de">'
        f'<file id="f">{units}</file></xliff>'
    )


def po(pairs: list[tuple[str, str]]) -> str:
    """Return a catalogue of gettext with fuzzy, obsolete and untranslated messages."""
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n\n'
    messages = "".join(f'#: a.c:{n}\nmsgid ""\n"{a}"\nmsgstr "{b}"\n\n' for n, (a, b) in enumerate(pairs))
    return (
        head + messages + '#, fuzzy\nmsgid "f"\nmsgstr "?"\n\nmsgid "new"\nmsgstr ""\n\n#~ msgid "o"\n#~ msgstr "a"\n'
    )


FILES = {"a.tmx": tmx, "a.xlf": xliff, "a.xliff": xliff2, "a.po": po}


@pytest.mark.parametrize("name", FILES)
def test_pairs_come_back_in_both_directions(tmp_path: Path, pairs_config: Config, name: str) -> None:
    """Guards against markup, codes of the document and doubtful messages in the pairs."""
    pytest.importorskip("translate")
    content = FILES[name](PAIRS)
    file = write(tmp_path / name, content)
    write(tmp_path / f"{name}.gz", gzip.compress(content.encode()))
    turned = {"source_column": "de", "target_column": "source" if name == "a.po" else "en"}
    for path, columns in ((file, {}), (file, NAMED), (f"{file}.gz", {}), (file, turned)):
        config = pairs_config(path, **columns)
        expected = [(b, a) for a, b in PAIRS] if columns is turned else PAIRS
        assert all_pairs(config) == expected
    if name in ("a.xlf", "a.po"):
        assert "train: 1 pairs with an empty side were left out" in load(pairs_config(file), "translate").notes


def test_plural_forms_and_encodings_of_a_catalogue(tmp_path: Path, pairs_config: Config) -> None:
    """Guards plurals, of which languages have one, two or more forms, and catalogues that are not UTF-8."""
    pytest.importorskip("translate")
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\n'
    plural = 'msgid "a file"\nmsgid_plural "%d files"\n'
    german = head.format("ISO-8859-1") + plural + 'msgstr[0] "eine Datei"\nmsgstr[1] "%d Dateien für uns"\n'
    config = pairs_config(write(tmp_path / "de.po", german.encode("latin-1")), valid_fraction=0.5)
    assert all_pairs(config) == [("a file", "eine Datei"), ("%d files", "%d Dateien für uns")]
    japanese = head.format("UTF-8") + plural + 'msgstr[0] "ファイル%d"\n\nmsgid "no"\nmsgstr "いいえ"\n'
    config = pairs_config(write(tmp_path / "ja.po", japanese), valid_fraction=0.5)
    assert all_pairs(config) == [("%d files", "ファイル%d"), ("no", "いいえ")]


def test_languages_of_a_memory(tmp_path: Path, pairs_config: Config) -> None:
    """Guards memories with more than two languages, of which two are chosen; variants of one count together."""
    pytest.importorskip("translate")
    more = tmx(PAIRS[:10]).replace("</tu>", '<tuv xml:lang="fr"><seg>Bonjour</seg></tuv></tu>')
    more = more.lstrip().replace("en-US", "en-GB", 3).encode("utf-16")
    file = write(tmp_path / "a.tmx", more)
    with pytest.raises(
        DataError, match=r"data.source_column=source: .*is in de, en-GB, fr, en-US; set data.source_column"
    ):
        load_rows(pairs_config(file), "translate")
    config = pairs_config(file, **NAMED)
    assert all_pairs(config) == PAIRS[:10]
    config = pairs_config(write(tmp_path / "b.tmx", tmx(PAIRS, ("zh-TW", "zh-CN"))))
    assert all_pairs(config) == PAIRS


LAUGHS = (
    tmx([("a &a9;", "b")])
    .replace("&amp;", "&")
    .replace(
        "?>",
        '?><!DOCTYPE tmx [<!ENTITY a0 "ha">'
        + "".join('<!ENTITY a{} "{}">'.format(n + 1, f"&a{n};" * 30) for n in range(9))
        + "]>",
    )
)
"""A file of two kilobytes that declares 40 terabytes of text."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tmx(PAIRS)[:500], r"a.tmx: cannot be read as TMX \("),
        (LAUGHS, r"a.tmx: cannot be read as TMX \("),
        ("no markup", r"a.tmx: cannot be read as TMX \("),
    ],
)
def test_damaged_file_error(tmp_path: Path, pairs_config: Config, content: str, message: str) -> None:
    """Guards against tracebacks."""
    pytest.importorskip("translate")
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(write(tmp_path / "a.tmx", content)), "translate")


def test_a_file_that_memory_may_not_hold_is_refused(
    tmp_path: Path, pairs_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards memory against a compressed file that grows a thousandfold."""
    monkeypatch.setattr("data.sources.formats.translation_files._MOST", 1 << 20)
    file = write(tmp_path / "a.tmx.gz", gzip.compress(tmx(PAIRS).encode() + b" " * (1 << 20)))
    with pytest.raises(DataError, match=r"a.tmx.gz: TMX files are held in memory, and this one has more than 1 MiB"):
        load_rows(pairs_config(file), "translate")


def test_nothing_outside_the_file_is_read(tmp_path: Path, pairs_config: Config) -> None:
    """Guards secrets of the machine: external entities and a document type on the disk or the network are ignored."""
    pytest.importorskip("translate")
    secret = write(tmp_path / "secret.txt", "the password")
    start = f'<!DOCTYPE tmx SYSTEM "http://127.0.0.1:9/tmx14.dtd" [<!ENTITY s SYSTEM "file://{secret}">]>'
    content = tmx([*PAIRS, ("see &s;", "sieh &s;")], start=start).replace("&amp;s;", "&s;")
    config = pairs_config(write(tmp_path / "a.tmx", content))
    assert all_pairs(config) == [*PAIRS, ("see", "sieh")]


@pytest.mark.parametrize("name", FILES)
def test_as_running_text_they_are_refused_by_name(tmp_path: Path, text_config: Config, name: str) -> None:
    """Guards against training on markup."""
    write(tmp_path / name, FILES[name](PAIRS))
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(DataError, match=rf"{name}: is a file of translations; pairs are read from it with task="):
            load_rows(text_config(path), "gpt")


def test_two_translation_files_are_refused_as_aligned(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against pairs of markup."""
    files = [write(tmp_path / name, po(PAIRS)) for name in ("en.po", "de.po")]
    with pytest.raises(
        DataError, match=r"en.po: is a file of translations, which holds both sides; give data.path one"
    ):
        load_rows(pairs_config(f"{files[0]},{files[1]}"), "translate")


def test_missing_library_error(tmp_path: Path, pairs_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards installations without the extra: the line says how to install it."""
    monkeypatch.setitem(sys.modules, "translate", None)
    for module in [name for name in sys.modules if name.startswith("translate.")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        DataError, match=r"a.tmx: TMX files are read with translate-toolkit: pip install translate-toolkit"
    ):
        load_rows(pairs_config(write(tmp_path / "a.tmx", tmx(PAIRS))), "translate")
