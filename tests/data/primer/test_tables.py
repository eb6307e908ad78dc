"""Every verb, adjective and noun of the lexicon, compared word by word with hand-written tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from data.primer.grammar import english as en
from data.primer.grammar import japanese as ja
from data.primer.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Sequel, Verb, _entries

TABLES = Path(__file__).with_name("tables")

Key = tuple[str, ...]
Forms = tuple[str, ...]

FINITE = ((False, False), (False, True), (True, False), (True, True))


def _japanese_verb(predicate: ja.Predicate) -> Forms:
    return (
        *(ja.finite(predicate, past=past, negative=negative).text for past, negative in FINITE),
        ja.plain(predicate, negative=True).text,
        ja.plain(predicate, past=True).text,
        ja.plain(predicate, past=True, negative=True).text,
        ja.te(predicate).text,
        ja.plain(ja.desiderative(predicate)).text,
        ja.plain(ja.potential(predicate)).text,
        ja.conditional(predicate).text,
    )


def _japanese_adjective(predicate: ja.Predicate, kind: str) -> Forms:
    state = kind == "state"  # a verb in ている: neither adverb nor すぎる
    return (
        *(ja.finite(predicate, past=past, negative=negative).text for past, negative in FINITE),
        ja.plain(predicate, negative=True).text,
        ja.plain(predicate, past=True).text,
        ja.plain(predicate, past=True, negative=True).text,
        ja.te(predicate).text,
        ja.conditional(predicate).text,
        "-" if state else ja.adverbial(predicate).text,
        "-" if state else ja.plain(ja.excess(predicate)).text,
    )


def _english_verb(entry: Verb) -> Forms:
    return (en.third_person(entry.english), entry.past, entry.participle, en.ing(entry.english))


def _english_noun(entry: Noun) -> Forms:
    assert entry.plural is not None
    return (entry.plural, en.article(entry.english))


def _english_adjective(entry: Adjective) -> Forms:
    """Return comparative, superlative and article, with 'more' and 'most' as in
    data.primer.constructions.adjectives."""
    word = entry.english
    degrees = (entry.comparative or f"more {word}", entry.superlative or f"most {word}")
    return (*(("-", "-") if "nocompare" in entry.features else degrees), en.article(word))


def _japanese_verbs() -> list[tuple[Key, Forms]]:
    verbs = [entry for entry in VERBS if entry.kind not in ("na", "i")]
    return [((entry.writing, entry.kind), _japanese_verb(entry.predicate)) for entry in verbs]


def _japanese_adjectives() -> list[tuple[Key, Forms]]:
    entries: list[Adjective | Verb] = [*ADJECTIVES, *(entry for entry in VERBS if entry.kind in ("na", "i"))]
    return [((entry.writing, entry.kind), _japanese_adjective(entry.predicate, entry.kind)) for entry in entries]


def _english_verbs() -> list[tuple[Key, Forms]]:
    return [((entry.english,), _english_verb(entry)) for entry in VERBS]


def _english_nouns() -> list[tuple[Key, Forms]]:
    return [((entry.english,), _english_noun(entry)) for entry in NOUNS if entry.plural is not None]


def _english_adjectives() -> list[tuple[Key, Forms]]:
    return [((entry.english,), _english_adjective(entry)) for entry in ADJECTIVES]


CHECKED: dict[str, Callable[[], list[tuple[Key, Forms]]]] = {
    "japanese_verbs": _japanese_verbs,
    "japanese_adjectives": _japanese_adjectives,
    "english_verbs": _english_verbs,
    "english_nouns": _english_nouns,
    "english_adjectives": _english_adjectives,
}
"""What the lexicon and the code make of each word, by the table that says what it ought to be."""

NO_POTENTIAL = {"わかる", "割れる"}

each_table = pytest.mark.parametrize("table", CHECKED)


@cache
def _read(table: str) -> tuple[Forms, list[tuple[Key, Forms]]]:
    """Return the names of the form columns, and the lines as (word, forms)."""
    header, *lines = (TABLES / f"{table}.tsv").read_text(encoding="utf-8").splitlines()
    size = 2 if table.startswith("japanese") else 1  # the word itself: with its class in Japanese
    columns = tuple(header.split("\t"))
    rows = [tuple(line.split("\t")) for line in lines]
    torn = [row for row in rows if len(row) != len(columns) or not all(row)]
    assert not torn, torn
    return columns[size:], [(row[:size], row[size:]) for row in rows]


@each_table
def test_every_form_is_as_written_by_hand(table: str) -> None:
    """Guards against a wrong class in the lexicon or a gap in a rule ("forgeting", 走ます), which would occur in
    thousands of sentences."""
    columns, rows = _read(table)
    written = dict(rows)
    mismatches = sorted(
        {
            f"{' '.join(word)}, {column}: {expected} expected, {form} made"
            for word, forms in CHECKED[table]()
            for column, expected, form in zip(columns, written.get(word, forms), forms, strict=True)
            if expected != form and (expected != "-" or table == "english_adjectives")
        }
    )
    assert not mismatches, "\n".join(mismatches)


@each_table
def test_every_word_has_its_line(table: str) -> None:
    """Guards against unchecked words, after an addition or a change of class in the lexicon, and against lines that
    check nothing."""
    written = [word for word, _ in _read(table)[1]]
    made = {word for word, _ in CHECKED[table]()}
    assert not made - set(written), "words without a line"
    assert not set(written) - made, "lines without a word"
    assert len(set(written)) == len(written), "a word on two lines"


@each_table
def test_forms_are_left_out_only_on_purpose(table: str) -> None:
    """Guards against a table full of '-', which is never compared."""
    columns, rows = _read(table)
    left_out = {
        (*word, column) for word, forms in rows for column, form in zip(columns, forms, strict=True) if form == "-"
    }
    states = {word for word, _ in rows if word[-1] == "state"}
    alone = {(entry.english,) for entry in ADJECTIVES if "nocompare" in entry.features}
    allowed = {
        "japanese_verbs": {(*word, "potential") for word, _ in rows if word[0] in NO_POTENTIAL},
        "japanese_adjectives": {(*word, column) for word in states for column in ("adverbial", "too_much")},
        "english_adjectives": {(*word, column) for word in alone for column in ("comparative", "superlative")},
    }
    assert left_out == allowed.get(table, set())


def test_a_table_with_other_columns_is_refused_by_name() -> None:
    """Guards against cells read into the wrong field after columns are swapped."""
    with pytest.raises(ValueError, match=r"times\.tsv: the columns are english, writing, .* instead of first, second"):
        _entries(Sequel, "times")
