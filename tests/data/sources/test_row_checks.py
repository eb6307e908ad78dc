"""Pairs that are probably no translations are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig
from data.sources.row_checks import script
from data.sources.sources import load
from tests.data.conftest import made_pairs, side, texts, tsv, write

Config = Callable[..., DataConfig]

PAIRS = made_pairs(100)


def notes(config: Config, rows: list[tuple[str, str]], folder: Path) -> list[str]:
    """Return the notes on these pairs."""
    table = write(folder / "a.tsv", tsv(rows))
    chosen = {"source_column": "1", "target_column": "2"}
    return load(config(table, valid_fraction=0.01, **chosen), "translate").notes


def test_valid_pairs_have_no_note(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against a line in every log: letters of both scripts in one sentence are usual."""
    mixed = [("I read 吾輩は猫である by Soseki in 1999.", "Tomは1999年に Mary に会った。")]
    assert notes(pairs_config, PAIRS + mixed, tmp_path) == []
    talk = [(f"{'Tom Ann'.split()[n % 2]}: {a}", f"{'Tom Ann'.split()[n % 2]}: {b}") for n, (a, b) in enumerate(PAIRS)]
    assert not any("warning" in note for note in notes(pairs_config, talk, tmp_path))


@pytest.mark.parametrize(
    ("odd", "what"),
    [
        (lambda n, a, b: (f"00:{n}", f"00:{n}"), "with equal sides"),
        (lambda n, a, b: (f'"k.{n}": "{a}",', f'"k.{n}": "{b}",'), "that begin with the same key"),
        (lambda n, a, b: (str(n), f"({n})"), "without letters on a side"),
        (lambda n, a, b: (b, a), "with source and target swapped, by their scripts"),
        (lambda n, a, b: (a, f"{a} not translated"), "with both sides in one script"),
    ],
)
def test_odd_pairs_are_counted_and_many_are_a_warning(
    tmp_path: Path, pairs_config: Config, odd: Callable[[int, str, str], tuple[str, str]], what: str
) -> None:
    """Guards subtitles, untranslated catalogues and mixed-up columns, on which training went on without a word."""

    def with_odd(every: int) -> list[tuple[str, str]]:
        return [odd(n, a, b) if n % every == 0 else (a, b) for n, (a, b) in enumerate(PAIRS)]

    assert notes(pairs_config, with_odd(50), tmp_path) == [f"train: of 100 pairs 2 {what}"]
    rows = with_odd(5)
    (warning,) = notes(pairs_config, rows, tmp_path)
    shown = " and ".join(f"{a[:40]!r} → {b[:40]!r}" for a, b in (rows[0], rows[5]))
    assert warning == f"train: warning: of 100 pairs 20 {what}, such as {shown}"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_side_with_few_different_texts_is_a_warning(tmp_path: Path, pairs_config: Config, side: str) -> None:
    """Guards the columns of domains, corpora and labels, which are the first ones of many tables."""
    names = ["ted" if n % 2 else "news" for n in range(len(PAIRS))]
    rows = [(name, b) if side == "source" else (a, name) for name, (a, b) in zip(names, PAIRS, strict=True)]
    result = notes(pairs_config, rows, tmp_path)
    wanted = f"train: warning: in 100 pairs the {side} has only 2 different values ('news', 'ted' …): is it"
    assert any(note.startswith(wanted) for note in result)
    assert notes(pairs_config, rows[:10], tmp_path) == []


@pytest.mark.parametrize("piece", ["▁{}", "{}@@ s"])
def test_texts_that_are_cut_into_pieces_are_a_warning(tmp_path: Path, pairs_config: Config, piece: str) -> None:
    """Guards files from after SentencePiece or subword-nmt: a model would learn and write the marks."""
    rows = [(piece.format(a), piece.format(b)) for a, b in PAIRS]
    assert any("are cut into pieces already" in note for note in notes(pairs_config, rows, tmp_path))


@pytest.mark.parametrize("ends", ["\r\n", "\r\r\n"])
def test_line_ends_of_windows_in_cells_are_line_ends(tmp_path: Path, text_config: Config, ends: str) -> None:
    """Guards poems in a CSV file from Windows, and in JSON."""
    cells = "".join(f'"line {n}{ends}two"{ends}' for n in range(9))
    assert texts(text_config(write(tmp_path / "a.csv", cells), text_column="1"))[3] == "line 3\ntwo"
    rows = "".join(json.dumps({"text": f"line {n}{ends}two"}) + "\n" for n in range(9))
    assert texts(text_config(write(tmp_path / "a.jsonl", rows)))[3] == "line 3\ntwo"


def test_languages_that_stand_on_the_other_side_are_a_warning(tmp_path: Path, pairs_config: Config) -> None:
    """Guards files or columns named by language in the wrong order."""
    write(tmp_path / "a.ja", side(PAIRS, 0))
    write(tmp_path / "a.en", side(PAIRS, 1))
    (warning,) = load(pairs_config(f"{tmp_path}/a.ja,{tmp_path}/a.en"), "translate").notes
    assert (
        "the sources, called .ja, are in Latin letters, and the targets, called .en, in Chinese or Japanese" in warning
    )
    assert load(pairs_config(f"{tmp_path}/a.en,{tmp_path}/a.ja", source_column="x"), "translate").notes != []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Tôi không biết cô ấy", "Latin"),
        ("żółć", "Latin"),
        ("Привет, Tom", "Cyrillic"),
        ("Καλημέρα", "Greek"),
        ("東京", "Chinese or Japanese"),
        ("안녕", "Hangul"),
        ("नमस्ते", "Devanagari"),
        ("สวัสดี", "Thai"),
        ("مرحبا", "Arabic"),
    ],
)
def test_the_script_of_a_text(text: str, name: str) -> None:
    """Guards languages with many accents, which are Latin, and names in Latin letters within other scripts."""
    assert script(text) == name
