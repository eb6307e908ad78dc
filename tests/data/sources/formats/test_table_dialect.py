"""Tables are read in the dialect that they are written in; a quote never swallows rows."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from data.config import DataConfig, problems
from data.errors import DataError
from data.sources.sources import load
from tests.data.conftest import all_pairs, load_rows, made_pairs, tsv, write

Config = Callable[..., DataConfig]
Rows = Sequence[tuple[str, ...]]

PAIRS = made_pairs(40)
PROSE = [(f"Yes, {a}; well", f"ja, {b}, {n}; so") if n % 3 else (a, b) for n, (a, b) in enumerate(PAIRS)]
QUOTES = [(f'He said "{a}"', b) if n % 3 else (a, b) for n, (a, b) in enumerate(PAIRS)]
BREAKS = [(f"{a}\nsecond line", f"{b}\n\nthird") if n % 3 else (a, b) for n, (a, b) in enumerate(QUOTES)]
NAMED = {"header": True, "source_column": "en", "target_column": "ja"}


def written(rows: Rows, separator: str, quoting: int = csv.QUOTE_MINIMAL) -> str:
    """Return a table as programs write it."""
    file = io.StringIO()
    csv.writer(file, delimiter=separator, quoting=quoting, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize("rows", [PROSE, QUOTES, BREAKS], ids=["prose", "quotes", "line breaks"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ids=["minimal", "all"])
@pytest.mark.parametrize(
    ("name", "separator"), [*((f"a.{kind}", "\t") for kind in ("tsv", "csv", "txt")), *(("a.csv", s) for s in ",;|")]
)
def test_a_table_is_read_as_a_program_wrote_it(
    tmp_path: Path, pairs_config: Config, name: str, separator: str, quoting: int, rows: Rows
) -> None:
    """Guards spreadsheets, pandas and databases: separators, quotes and line breaks inside cells come back."""
    table = written([("en", "ja"), *rows], separator, quoting)
    assert all_pairs(pairs_config(write(tmp_path / name, table), **NAMED)) == rows


@pytest.mark.parametrize(
    "change",
    [
        lambda n, a, b: (f'"{a}" he said', b),
        lambda n, a, b: (f'"{a}', b) if n == 3 else (a, f'{b}"') if n == 9 else (a, b),
        lambda n, a, b: (f'"{a}"', f'"{b}"') if n % 2 else (a, b),
        lambda n, a, b: (a, f'5" {b}'),
        lambda n, a, b: (f'"{a}', f'„{b}"') if n % 9 == 7 else (a, b),
        lambda n, a, b: (f'"{a}"', b) if n == 7 else (a, b),
    ],
)
def test_quotes_between_tabs_are_text_unless_all_are_a_programs(
    tmp_path: Path, pairs_config: Config, change: Callable[[int, str, str], tuple[str, str]]
) -> None:
    """Guards corpora for Moses: a quote at both ends of a cell, or at one, is a character of a sentence."""
    rows = [change(n, a, b) for n, (a, b) in enumerate(PAIRS)]
    table = tsv(rows)
    assert all_pairs(pairs_config(write(tmp_path / "a.tsv", table))) == rows


def test_spaces_before_quotes_and_the_first_line_of_excel(tmp_path: Path, pairs_config: Config) -> None:
    """Guards tables written by hand, whose quotes would be text, and `sep=;`, which would be a row."""
    table = "en; ja\n" + "".join(f'"{a}; ""so"""; "{b}"\n' for a, b in PAIRS)
    config = pairs_config(write(tmp_path / "a.csv", "sep=;\n" + table), **NAMED)
    assert all_pairs(config) == [(f'{a}; "so"', b) for a, b in PAIRS]
    assert load(config, "translate").notes[-1] == "a.csv: ; quoted after 1 line of settings, header: en, ja"


def test_note_on_the_recognised_dialect(tmp_path: Path, pairs_config: Config) -> None:
    """Guards the log: a wrong guess is seen there; the usual dialects need no line."""
    rows = [(str(n), *pair) for n, pair in enumerate(PROSE)]
    for name in ("train.csv", "valid.csv"):
        write(tmp_path / "talks" / name, written([("id", "en", "ja"), *rows], ";"))
    notes = load(pairs_config(tmp_path / "talks", **NAMED), "translate").notes
    assert [note for note in notes if ".csv" in note] == ["train.csv and 1 more: ; quoted, header: id, en, ja"]
    numbers = {"source_column": "1", "target_column": "2"}
    assert load(pairs_config(write(tmp_path / "a.tsv", written(PAIRS, "\t")), **numbers), "translate").notes == []


def test_both_settings_overrule_what_is_recognised(tmp_path: Path, pairs_config: Config) -> None:
    """Guards the way out: the same file read with the other separator and with the other meaning of quotes."""
    table = write(tmp_path / "a.csv", "".join(f'"{n},a";"{n},b"\n' for n in range(40)))
    assert all_pairs(pairs_config(table))[0] == ("0,a", "0,b")
    assert all_pairs(pairs_config(table, quoting="none"))[0] == ('"0,a"', '"0,b"')
    assert all_pairs(pairs_config(table, quoting="none", separator="comma", target_column="3"))[0] == ('"0', 'b"')
    star = write(tmp_path / "b.csv", "".join(f"{n}*{n} b\n" for n in range(40)))
    assert all_pairs(pairs_config(star, separator="*"))[7] == ("7", "7 b")
    lines = write(tmp_path / "a.jsonl", '{"source": "a", "target": "b"}\n')
    with pytest.raises(DataError, match=r"data.separator, data.quoting: are for CSV and TSV, but .* is json"):
        load_rows(pairs_config(lines, separator=","), "translate")


@pytest.mark.parametrize("signs", ["|||", "+++$+++", "=>"])
@pytest.mark.parametrize("chosen", [False, True])
def test_signs_between_spaces_separate_cells(tmp_path: Path, pairs_config: Config, signs: str, chosen: bool) -> None:
    """Guards the files of aligners and of film dialogues, whose lines have no tab."""
    table = "".join(f"{a} {signs} {b}\n" for a, b in PROSE[: 5 if chosen else None])
    settings = {"separator": signs} if chosen else {}
    config = pairs_config(write(tmp_path / "a.de-en", table), valid_fraction=0.2, **settings)
    assert all_pairs(config) == PROSE[: 5 if chosen else None]
    assert f"a.de-en: {signs} with literal quotes, no header" in load(config, "translate").notes


def test_settings_of_dialects_are_checked(pairs_config: Config) -> None:
    """Guards typing errors, and settings that the source has no use for."""
    assert problems(pairs_config("a.csv", separator="tab", quoting="none")) == []
    (separator, quoting) = problems(pairs_config("a.csv", separator="semicolons", quoting="yes"))
    assert separator.startswith("data.separator='semicolons': must be comma, semicolon, tab, pipe or signs that")
    (both,) = problems(pairs_config("a.csv", separator="|||", quoting="csv"))
    assert both.startswith("data.quoting=csv: quotes enclose cells only between single characters, not |||")
    assert quoting.startswith("data.quoting=yes: must be csv")
    assert problems(DataConfig(separator=","))[0].startswith("data.separator: is for CSV and TSV files")


REST = "".join(f"a {n},b {n}\n" for n in range(40))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f'"Go,Geh\n{REST}he said "yes",er sagte ja\n{REST}', "line 2: .*opened here is closed in line 43 before"),
        (f'{REST}"x,y\n{REST}', "line 42: .*opened here is never closed"),
        (f'"one\ntwo","three\nfour\n{REST}', "line 3: .*opened here is never closed"),
        (f'"Go,Geh\n{REST}x,y"\n{REST}', "line 2: the quote opened here is closed in line 43, .*look like rows"),
        (f'x,"Geh\n{REST}x,y"\n{REST}', "line 2: the quote opened here is closed in line 43, .*look like rows"),
        (f'{REST}"yes" he said,ja\n', "line 42: .*opened here is closed before the end"),
        (f'"Go,Geh\n{REST}x"\n{REST}', r"lines 2 to 43: have 1 cell .*a quote that is opened in line 2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_quote_that_is_not_closed_is_named_by_the_line_on_which_it_opens(
    tmp_path: Path, pairs_config: Config, content: str, message: str, separator: str
) -> None:
    """Guards against rows that a stray quote swallows in silence."""
    table = write(tmp_path / "a.csv", "en,ja\n".replace(",", separator) + content.replace(",", separator))
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(table, **NAMED), "translate")
    assert len(all_pairs(pairs_config(table, quoting="none", header=True, source_column="1", target_column="1"))) > 40


def test_a_cell_with_line_breaks_and_commas_is_no_stray_quote(tmp_path: Path, pairs_config: Config) -> None:
    """Guards letters and poems in a cell; what still looks like rows is read if quoting is set."""
    rows = [("Dear John,\nthank you, and goodbye,\nyours", "Lieber John, danke"), *PAIRS]
    table = write(tmp_path / "a.csv", written([("en", "ja"), *rows], ","))
    assert all_pairs(pairs_config(table, **NAMED)) == rows
    rows = [("a,b\nc", "d"), *PAIRS]
    table = write(tmp_path / "b.csv", written([("en", "ja"), *rows], ","))
    with pytest.raises(DataError, match=r"line 2: .*data.quoting=csv if it is one cell"):
        load_rows(pairs_config(table, **NAMED), "translate")
    assert all_pairs(pairs_config(table, quoting="csv", **NAMED)) == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "one\ntwo\n", r"line 1: has 1 cell separated by tab \('one'\), .*no tab between two texts"),
        ("a b.txt", "one\nuno\n\ntwo\t\t\ndue\n", r"lines below .*'a b.txt' \| .*\| paste - - > pairs.tsv; if other"),
        (
            "a.txt",
            "one\t\nuno\t\n",
            r"a.txt: no row has a text in both columns; the lines have no tab between two texts",
        ),
        ("a.txt", "one\ntwo\tzwei\n", r"line 1: .*\(data.target_column=target\); fix the line"),
        ("a.csv", "a,b\n" * 12 + "so, yes,c\n", "line 13: has 3 cells .*the first line has 2; enclose cells"),
    ],
)
def test_row_width_error(tmp_path: Path, pairs_config: Config, name: str, content: str, message: str) -> None:
    """Guards against "there is no column 2" as the only answer, and a comma in a sentence that shifts the columns."""
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(write(tmp_path / name, content)), "translate")


def test_the_header_of_an_anki_export_is_read(tmp_path: Path, pairs_config: Config) -> None:
    """Guards notes in plain text: separator, names, columns that hold no text, quotes and HTML are those of Anki."""
    cards = "".join(f'g{n}\tBasic\tthe <b>dog</b>&nbsp;{n}\t"der ""Hund""<br>{n}"\n' for n in range(20))
    header = "#separator:tab\n#html:true\n#guid column:1\n#notetype column:2\n"
    config = pairs_config(write(tmp_path / "notes.txt", header + cards))
    assert all_pairs(config)[3] == ("the dog 3", 'der "Hund"\n3')
    assert "notes.txt: tab quoted after 4 lines of settings, no header" in load(config, "translate").notes
    named = "#separator:Semicolon\n#columns:id;en;ja\n" + "".join(f"{n};the dog {n};犬{n}\n" for n in range(20))
    columns = {"source_column": "ja", "target_column": "en"}
    assert all_pairs(pairs_config(write(tmp_path / "named.txt", named), **columns))[5] == ("犬5", "the dog 5")


def test_quotes_escaped_with_a_backslash_come_with_a_command_that_doubles_them(
    tmp_path: Path, pairs_config: Config
) -> None:
    """Guards exports of MySQL: data.quoting=none would leave the quotes and the backslashes in the texts."""
    rows = [(f'{a} said "{n}", and left', b) for n, (a, b) in enumerate(PAIRS)]
    escaped = "".join('"' + a.replace('"', '\\"') + f'","{b}"\n' for a, b in rows)
    with pytest.raises(DataError, match=r"backslash.*: sed .*") as result:
        load_rows(pairs_config(write(tmp_path / "my a.csv", escaped)), "translate")
    subprocess.run(str(result.value).rpartition(": ")[2], shell=True, cwd=tmp_path, check=True)
    assert all_pairs(pairs_config(tmp_path / "my a.fixed.csv")) == rows
