"""Texts that are not UTF-8."""

from __future__ import annotations

import codecs
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig, problems
from data.errors import DataError
from tests.data.conftest import load_rows, texts, write

Config = Callable[..., DataConfig]

FRENCH = "Un été à la forêt.\n"
TURKISH = "Türkçe öğrenmek istiyorum. Şimdi çok güzel bir gün, ağaçlar çiçek açtı.\n"
JAPANESE = "今日は天気がいいから、公園へ行きましょう。彼は明日来ると言いました。\n"
TEXTS = [
    ("latin_1", FRENCH),
    ("iso8859_9", TURKISH),
    ("iso8859_9", "Bugün hava çok güzel, şehirde yürüyüş yapıyoruz ve İstanbul ışıl ışıl.\n"),
    ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy.\n"),
    ("iso8859_2", "Zażółć gęślą jaźń. Dzień dobry, proszę państwa, już późno.\n"),
    ("cp1251", "Мама мыла раму. Все счастливые семьи похожи друг на друга.\n"),
    ("cp1251", "L1 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ Мама мыла раму.\n"),
    ("iso8859_5", "Мама мыла раму. Все счастливые семьи похожи друг на друга.\n"),
    ("koi8_r", "Мама мыла раму. Все счастливые семьи похожи друг на друга.\n"),
    ("gb18030", "今天天气很好，我们去公园散步。他说他明天会来看我们。\n"),
    ("big5", "今天天氣很好，我們去公園散步。他說他明天會來看我們。\n"),
    ("cp932", JAPANESE),
    ("euc_jp", JAPANESE),
    ("iso2022_jp", JAPANESE),
    ("euc_kr", "오늘은 날씨가 좋아서 공원에 갑시다.\n"),
    ("utf_16_le", "Мама мыла раму. Все счастливые семьи похожи друг на друга.\n"),
    ("utf_16_le", "plain English text without a BOM.\n"),
    ("utf_16_be", JAPANESE),
    ("utf_32_le", FRENCH),
]


@pytest.mark.parametrize(("encoding", "text"), TEXTS)
def test_suggested_encoding_reads_the_text(tmp_path: Path, text_config: Config, encoding: str, text: str) -> None:
    """Guards against training on NUL characters, and against advice that damages the text: both the setting and the
    command of the message give the text."""
    book = write(tmp_path / "my book.txt", ("only ASCII\n" * 20 + text * 50).encode(encoding))
    with pytest.raises(DataError, match=r"my book.txt.*: not UTF-8.*it looks like") as result:
        load_rows(text_config(book), "gpt")
    setting, command = re.search(r"data.encoding=(\S+), or convert it: (.*)", str(result.value)).groups()
    expected = book.read_bytes().decode(encoding)
    config = text_config(book, encoding=setting)
    assert "".join(texts(config) + texts(config, "valid")) == expected
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "my book.utf8.txt").read_bytes().decode() == expected


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE])
def test_a_byte_order_mark_names_the_encoding(tmp_path: Path, text_config: Config, mark: bytes) -> None:
    """Guards files saved by Notepad as "Unicode": lines end at LF and CR LF alone, as in UTF-8."""
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(mark, "utf-32-le")
    book = write(tmp_path / "a.txt", mark + "one 猫\r\ntwo \u2028 \x0c x\ry\nਊ".encode(encoding))
    config = text_config(book, rows="line", valid_path=str(book))
    assert texts(config) == ["one 猫", "two \u2028 \x0c x\ry", "ਊ"]


def test_a_wrong_encoding_is_explained(tmp_path: Path, text_config: Config) -> None:
    """Guards data.encoding: an unknown name, another than the file's, a source without files."""
    assert "data.encoding=utf-9" in problems(text_config("x", encoding="utf-9"))[0]
    assert "data.encoding=base64" in problems(text_config("x", encoding="base64"))[0]
    assert "data.encoding" in problems(DataConfig(encoding="cp932"))[0]
    book = write(tmp_path / "a.txt", (JAPANESE * 9).encode("euc_jp"))
    with pytest.raises(DataError, match=r"line 1: not cp1255 .* it looks like euc_jp .*data.encoding=euc_jp"):
        load_rows(text_config(book, encoding="cp1255"), "gpt")
    short = write(tmp_path / "short.ja", "".join(f"猫 {n} が座った {n}\n" for n in range(40)).encode("cp932"))
    with pytest.raises(DataError, match=r"it looks like cp932 \('猫 0 が座った"):
        load_rows(text_config(short), "gpt")


def test_data_encoding_is_for_files_that_are_not_utf8(tmp_path: Path, text_config: Config) -> None:
    """Guards against UTF-8 that is read as something else because a test file, or one of many, is not UTF-8."""
    book = write(tmp_path / "a.txt", FRENCH * 9)
    valid = write(tmp_path / "b.txt", (FRENCH * 9).encode("cp1252"))
    config = text_config(book, valid_path=str(valid), encoding="cp1252")
    assert texts(config) == texts(config, "valid") == [FRENCH * 9]


def test_damaged_utf8_is_not_taken_for_another_encoding(tmp_path: Path, text_config: Config) -> None:
    """Guards against advice that turns every other letter of the text into two: one byte is wrong, or the end is cut
    off."""
    for damaged in (JAPANESE.encode() * 9 + b"a \xff b\n" + JAPANESE.encode() * 9, JAPANESE.encode()[:-2]):
        book = write(tmp_path / "my book.txt", damaged)
        with pytest.raises(DataError, match=r"not UTF-8 .* but the text around it is; to remove") as result:
            load_rows(text_config(book), "gpt")
        subprocess.run(str(result.value).rpartition(": ")[2], shell=True, cwd=tmp_path, check=False)
        assert (tmp_path / "my book.fixed.txt").read_bytes() == damaged.decode(errors="ignore").encode()


def test_nul_characters_are_refused(tmp_path: Path, text_config: Config) -> None:
    """Guards against binary files that happen to be UTF-8."""
    for content in (b"one\ntwo\n" * 50 + b"thr\0ee\n", b"one\ntwo\n" * 50 + b"two \0 words\n"):
        book = write(tmp_path / "a.txt", content)
        with pytest.raises(DataError, match=r"a.txt, line 101: has a NUL character.*tr -d"):
            load_rows(text_config(book), "gpt")


@pytest.mark.parametrize("encoding", ["cp1252", "cp932"])
def test_a_mark_of_utf8_before_another_encoding(tmp_path: Path, text_config: Config, encoding: str) -> None:
    """Guards against a dead end: the message named data.encoding, which the mark overruled."""
    text = (FRENCH if encoding == "cp1252" else JAPANESE) * 50
    book = write(tmp_path / "a.txt", codecs.BOM_UTF8 + text.encode(encoding))
    with pytest.raises(DataError, match=rf"it looks like {encoding} .*data.encoding={encoding}") as result:
        load_rows(text_config(book), "gpt")
    config = text_config(book, encoding=encoding)
    assert "".join(texts(config) + texts(config, "valid")) == text
    subprocess.run(str(result.value).rpartition(": ")[2], shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "a.utf8.txt").read_text("utf-8") == text
