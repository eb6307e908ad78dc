"""Rows from every kind of local file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from data.config import DataConfig
from data.errors import DataError
from data.sources.sources import load
from tests.data.conftest import all_pairs, load_rows, made_pairs, made_text, pairs, side, texts, tsv, write

PAIRS = made_pairs(40)
Config = Callable[..., DataConfig]


# Running text


def test_a_text_file_is_split_by_characters_at_its_end(tmp_path: Path, text_config: Config) -> None:
    """Guards comparability with nanoGPT: train is the first int(0.9 n) characters, validation the rest."""
    text = made_text(99) + "猫が座った。"
    config = text_config(write(tmp_path / "book.txt", text))
    assert texts(config) == [text[: int(0.9 * len(text))]]
    assert texts(config, "valid") == [text[int(0.9 * len(text)) :]]
    halves = text_config(config.path, valid_fraction=0.2, test_fraction=0.3)
    assert "".join(texts(halves)[0] + texts(halves, "valid")[0] + texts(halves, "test")[0]) == text
    assert len(texts(halves, "test")[0]) == pytest.approx(0.3 * len(text), abs=1)


def test_text_survives_windows_line_ends_and_byte_order_marks(tmp_path: Path, text_config: Config) -> None:
    r"""Guards Windows files; unusual separators (U+2028, form feed, a lone \r) remain characters of their line."""
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo \xe2\x80\xa8 \x0c x\ry\r\n" + b"end\n" * 50)
    config = text_config(path, valid_path=str(path))
    assert texts(config) == ["one\ntwo \u2028 \x0c x\ry\n" + "end\n" * 50]


def test_rows_of_text_may_be_documents_paragraphs_or_lines(tmp_path: Path, text_config: Config) -> None:
    """Guards the three values of data.rows."""
    write(tmp_path / "train.txt", "one\ntwo\n\n  \nthree\n")
    write(tmp_path / "valid.txt", "x\n")
    assert texts(text_config(tmp_path)) == ["one\ntwo\n\n  \nthree\n"]
    assert texts(text_config(tmp_path, rows="paragraph")) == ["one\ntwo", "three"]
    assert texts(text_config(tmp_path, rows="line")) == ["one", "two", "  ", "three"]


def test_a_glob_is_one_document_per_file(tmp_path: Path, text_config: Config) -> None:
    """Guards globs: files are sorted by name, and validation is split off the end of the last file."""
    for name in "bca":
        write(tmp_path / "books" / f"{name}.txt", name * 100)
    config = text_config(tmp_path / "books" / "*.txt")
    assert texts(config) == ["a" * 100, "b" * 100, "c" * 70]
    assert texts(config, "valid") == ["c" * 30]


@pytest.mark.parametrize(
    "names", [("train.txt", "valid.txt", "test.txt"), ("wiki.train.txt", "wiki.val.txt", "wiki.test.txt")]
)
def test_a_folder_is_searched_for_files_named_after_splits(tmp_path: Path, text_config: Config, names) -> None:
    """Guards the common names of splits; other files in the folder are not used."""
    for name in names:
        write(tmp_path / name, f"text of {name}")
    write(tmp_path / "README.txt", "not data")
    write(tmp_path / "BOOKS.list", "not data")
    for split, name in zip(("train", "valid", "test"), names, strict=True):
        assert texts(text_config(tmp_path), split) == [f"text of {name}"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv", "tsv"])
def test_tables_of_text(tmp_path: Path, text_config: Config, kind: str) -> None:
    """Guards every table format: the chosen column is read exactly, including quotes and line breaks."""
    rows = [f'He said "no" {n}, twice' for n in range(20)]
    table = datasets.Dataset.from_dict({"id": list(range(20)), "body": rows})
    path = tmp_path / f"data.{kind}"
    if kind == "jsonl":
        write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table))
    elif kind == "parquet":
        table.to_parquet(str(path))
    elif kind == "csv":
        table.to_csv(str(path), index=False)
    else:
        write(path, "id\tbody\n" + tsv(enumerate(rows)))
    config = text_config(path, text_column="body", header=True)
    assert texts(config) + texts(config, "valid") == rows
    with pytest.raises(DataError, match=r"data.text_column=wrong.*body"):
        load_rows(text_config(path, text_column="wrong", header=True), "gpt")


def test_a_cell_of_a_csv_may_hold_a_book(tmp_path: Path, text_config: Config) -> None:
    """Guards documents in tables: by default, Python's reader rejects cells of more than 131,072 characters."""
    book = "word, " * 50_000
    config = text_config(write(tmp_path / "a.csv", "".join(f'{n},"{book}{n}"\n' for n in range(10))), text_column="2")
    assert [*texts(config), *texts(config, "valid")] == [f"{book}{n}" for n in range(10)]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_name_with_the_characters_of_a_glob_is_one_file(
    tmp_path: Path, text_config: Config, kind: str, streaming: bool
) -> None:
    """Guards against reading other files that match the name, and against caching their rows under the hash of this
    file."""
    others = write_table(tmp_path / "other" / f"same.{kind}", ["a", "b"])
    for folder in ("plain", "data [v2]", "q*"):
        for name in ("qX", "q?", "data [v2]", "data v", "*", "{qX,zz}", "zz", "x#%20;&"):
            write_table(tmp_path / folder / f"{name}.{kind}", [f"{folder} {name} {n}" for n in range(3)])
    for folder, name in (
        ("plain", "q?"),
        ("plain", "*"),
        ("data [v2]", "data [v2]"),
        ("q*", "{qX,zz}"),
        ("q*", "x#%20;&"),
    ):
        config = text_config(tmp_path / folder / f"{name}.{kind}", valid_path=str(others), streaming=streaming)
        assert [row["text"] for row in load_rows(config, "gpt")["train"]] == [f"{folder} {name} {n}" for n in range(3)]


def write_table(path: Path, rows: list[str]) -> Path:
    """Write a JSON Lines or parquet file with the column `text`."""
    if path.suffix == ".jsonl":
        return write(path, "".join(json.dumps({"text": row}) + "\n" for row in rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict({"text": rows}).to_parquet(str(path))
    return path


def test_a_folder_in_a_glob_is_taken_by_its_name(tmp_path: Path, text_config: Config) -> None:
    """Guards `books [2]/*.txt`: an existing folder is not a pattern; `*` does not match hidden files."""
    for name in ("a.txt", "b.txt", ".hidden.txt"):
        write(tmp_path / "books [2]" / name, name[0] * 50)
    write(tmp_path / "books 2" / "c.txt", "c" * 50)
    config = text_config(tmp_path / "books [2]" / "*.txt")
    assert texts(config) == ["a" * 50, "b" * 40]


def test_note_on_unused_files_of_a_folder(tmp_path: Path, text_config: Config) -> None:
    """Guards against training on one of a hundred files because its name contains "train": a note lists used and unused
    files and folders, also in later runs."""
    write(tmp_path / "books" / "the-great-train-robbery.txt", "a" * 100)
    for n in range(7):
        write(tmp_path / "books" / f"book{n}.txt", "b" * 100)
    write(tmp_path / "books" / "README.md", "no data")
    for _ in range(2):
        rows = load(text_config(tmp_path / "books"), "gpt")
        (note,) = rows.notes
        assert "uses train: the-great-train-robbery.txt. Not used: book0.txt, book1.txt" in note
        assert note.endswith("and 2 more; to choose others, set data.path to a glob")
    write(tmp_path / "mixed" / "a.txt", "a" * 100)
    write(tmp_path / "mixed" / "b.jsonl", "{}")
    write(tmp_path / "mixed" / "more" / "c.txt", "c")
    assert "Not used: b.jsonl, more/;" in load(text_config(tmp_path / "mixed"), "gpt").notes[0]
    assert load(text_config(tmp_path / "mixed" / "*.txt"), "gpt").notes == []


@pytest.mark.parametrize("among", ["books", "books/*.txt"])
def test_a_file_that_is_named_for_validation_is_used_for_that_alone(
    tmp_path: Path, text_config: Config, among: str
) -> None:
    """Guards against training on the validation text, in a folder or matched by a glob, and against a note that lists
    it as unused."""
    write(tmp_path / "books" / "a.txt", "a" * 100)
    write(tmp_path / "books" / "held.txt", "h" * 100)
    config = text_config(tmp_path / among)
    config.valid_path = str(tmp_path / "books" / "held.txt")
    rows = load(config, "gpt")
    assert ([row["text"] for row in rows["train"]], [row["text"] for row in rows["valid"]]) == (
        ["a" * 100],
        ["h" * 100],
    )
    assert rows.notes == []


def test_names_of_aligned_files_may_hold_commas(tmp_path: Path, pairs_config: Config) -> None:
    """Guards lists of two files: the list is split at the comma with an existing file on both sides."""
    write(tmp_path / "Doe, Jane.en", side(PAIRS, 0))
    write(tmp_path / "Doe, Jane.ja", side(PAIRS, 1))
    config = pairs_config(f"{tmp_path}/Doe, Jane.en,{tmp_path}/Doe, Jane.ja")
    assert all_pairs(config) == PAIRS
    with pytest.raises(DataError, match=r"data.path=.*gone.ja: no such file"):
        load_rows(pairs_config(f"{tmp_path}/Doe* Jane.en,{tmp_path}/gone.ja"), "translate")


def test_note_on_default_columns(tmp_path: Path, pairs_config: Config) -> None:
    """Guards files with other column names: a note shows the beginning of the columns that are read by default."""
    write(tmp_path / "a.csv", "japanese,english,id\n" + "".join(f"{ja},{en},{n}\n" for n, (en, ja) in enumerate(PAIRS)))
    *_, note = load(pairs_config(tmp_path / "a.csv"), "translate").notes
    assert note.startswith(
        "source is column 1, which begins with 'japanese'; target is column 2, which begins with 'english'"
    )
    chosen = load(pairs_config(tmp_path / "a.csv", source_column="2", target_column="1"), "translate").notes
    assert not any("begins with" in note for note in chosen)


@pytest.mark.parametrize(
    ("name", "titles"),
    [("a.csv", "id,en,ja\n"), ("a.csv", ",en,ja\n"), ("a.csv", ""), ("a.txt", "id\ten\tja\n"), ("a.tsv", "")],
)
def test_a_column_of_numbers_is_refused_where_nobody_chose_it(
    tmp_path: Path, pairs_config: Config, name: str, titles: str
) -> None:
    """Guards against training on ids: pandas and Tatoeba write them in the first column."""
    separator = "," if name == "a.csv" else "\t"
    rows = "".join(separator.join((str(n), en, ja)) + "\n" for n, (en, ja) in enumerate(PAIRS))
    table = write(tmp_path / name, titles + rows)
    with pytest.raises(DataError, match=r"column 1 is read as the source .*data.source_column and data.target_column"):
        load_rows(pairs_config(table), "translate")
    config = pairs_config(table, source_column="2", target_column="3")
    assert all_pairs(config)[bool(titles) :] == PAIRS
    if "id" in titles:
        config = pairs_config(table, header=True, source_column="en", target_column="ja")
        assert all_pairs(config) == PAIRS


def test_numeric_text_columns_are_accepted(tmp_path: Path, pairs_config: Config) -> None:
    """Guards toy data: numbers are accepted in tables of two columns, among sentences, or in a column that the user
    chose."""
    numbers = [(str(n), str(n)[::-1]) for n in range(10, 50)]
    table = write(tmp_path / "two.tsv", tsv(numbers))
    assert pairs(pairs_config(table))[:9] == numbers[:9]
    table = write(tmp_path / "three.tsv", "".join(f"{a}\t{b}\tx\n" for a, b in numbers))
    assert pairs(pairs_config(table, source_column="1", target_column="2"))[:9] == numbers[:9]
    table = write(tmp_path / "mixed.tsv", "".join(f"{a}\t{b}\tx\n" for a, b in [*numbers[:5], *PAIRS]))
    assert pairs(pairs_config(table))[:6] == [*numbers[:5], PAIRS[0]]


@pytest.mark.parametrize("streaming", [False, True])
def test_max_rows_counts_documents_of_the_training_split(tmp_path: Path, text_config: Config, streaming: bool) -> None:
    """Guards quick experiments on many files: max_rows does not change the validation split."""
    for n in range(10):
        write(tmp_path / "books" / f"{n}.txt", str(n) * 10)
    books = str(tmp_path / "books" / "*.txt")

    def text(split: str, **settings: object) -> str:
        rows = load_rows(text_config(books, valid_fraction=0.25, streaming=streaming, **settings), "gpt")[split]
        return "".join(row["text"] for row in rows)

    assert text("train", max_rows=2) == "0" * 10 + "1" * 10
    assert text("valid", max_rows=2) == text("valid") == "7" * 5 + "8" * 10 + "9" * 10
    assert text("train", max_rows=100) == text("train")
    own = {"max_rows": 3, "valid_path": f"{tmp_path}/books/5.txt"}
    assert text("train", **own) == "0" * 10 + "1" * 10 + "2" * 10


def test_max_rows_makes_room_in_memory_for_a_part_of_a_large_folder(
    tmp_path: Path, text_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against an error about the size of the whole folder when only a few files are used."""
    monkeypatch.setattr("data.sources.sources._IN_MEMORY", 30)
    for n in range(10):
        write(tmp_path / "books" / f"{n}.txt", str(n) * 10)
    rows = load_rows(text_config(tmp_path / "books", max_rows=2), "gpt")
    assert [row["text"] for row in rows["train"]] == ["0" * 10, "1" * 10]
    assert [row["text"] for row in rows["valid"]] == ["9" * 10]
    with pytest.raises(DataError, match=r"too much text .*data.streaming=true"):
        load_rows(text_config(tmp_path / "books", max_rows=3), "gpt")


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl"])
@pytest.mark.parametrize("streaming", [False, True])
def test_nothing_is_read_beyond_max_rows_where_the_other_splits_have_their_own_files(
    tmp_path: Path, text_config: Config, kind: str, streaming: bool
) -> None:
    """Guards quick experiments on a huge corpus: only the requested rows are read and stored."""
    if kind == "txt":
        for n, content in enumerate((b"one", b"two", b"not UTF-8: \xff")):
            write(tmp_path / "corpus" / f"{n}.txt", content)
    else:
        row, broken = {"csv": ("{}\n", '"never closed\n'), "jsonl": ('{{"text": "{}"}}\n', "{\n")}[kind]
        more = row.format("x" * 1000) * 11_000  # the hub library reads 10 MB at a time
        write(tmp_path / "corpus" / f"a.{kind}", row.format("one") + row.format("two") + more + broken)
    valid = write(tmp_path / f"valid.{kind}", '{"text": "three"}' if kind == "jsonl" else "three")
    config = text_config(tmp_path / "corpus", valid_path=str(valid), max_rows=2, streaming=streaming)
    rows = load_rows(config, "gpt")
    assert {split: [row["text"] for row in result] for split, result in rows.items()} == {
        "train": ["one", "two"],
        "valid": ["three"],
    }


def test_max_rows_shortens_training_alone(tmp_path: Path, pairs_config: Config) -> None:
    """Guards quick experiments: the validation split is complete."""
    config = pairs_config(write(tmp_path / "all.tsv", tsv(PAIRS)), max_rows=7)
    assert pairs(config) == PAIRS[:7]
    assert pairs(config, "valid") == PAIRS[36:]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("mark", ["<|endoftext|>\n", "<|endoftext|>\n\n", "<|endoftext|>", "<|end_of_text|>\n"])
def test_document_separators_are_removed(tmp_path: Path, text_config: Config, mark: str, streaming: bool) -> None:
    """Guards TinyStories, whose `<|endoftext|>` was learned as text; the separator may be cut by the splits."""
    stories = ["\none\n\ntwo\n", "three <|endless|>\n", "four\n"]
    path = write(tmp_path / "a.txt", mark.join(stories) + mark)
    valid = str(write(tmp_path / "valid.txt", "five\n"))

    def rows(split: str = "train", **settings: object) -> list[str]:
        documents: dict[object, str] = {}
        for number, row in enumerate(load_rows(text_config(path, streaming=streaming, **settings), "gpt")[split]):
            place = row.get("document", number)
            documents[place] = documents.get(place, "") + row["text"]
        return list(documents.values())

    assert rows(valid_path=valid) == stories
    assert rows(valid_path=valid, rows="paragraph") == ["one", "two", "three <|endless|>", "four"]
    assert rows(valid_path=valid, rows="line") == ["one", "two", "three <|endless|>", "four"]
    config = text_config(path, valid_path=valid, streaming=streaming)
    assert load(config, "gpt").notes == ["3 <|endoftext|> separate documents, and are not part of the text"]
    for tenth in (3, 4, 5, 6):
        whole = rows(valid_fraction=tenth / 10) + rows("valid", valid_fraction=tenth / 10)
        assert "".join(whole).replace("\n", "") == "".join(stories).replace("\n", "")


# Sentence pairs


def test_tsv_without_header_or_quoting(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Tatoeba's format: columns 1 and 2, literal quotes, words such as NA or null, ignored ids."""
    chosen = [('"Yes', "「はい」"), ("NA", "null"), ("None", "nan"), ("1", "一"), *PAIRS]
    write(tmp_path / "train.tsv", "".join(f"{en}\t{ja}\t{n}\t7\n" for n, (en, ja) in enumerate(chosen)))
    write(tmp_path / "valid.tsv", tsv(PAIRS))
    assert pairs(pairs_config(tmp_path)) == chosen
    swapped = pairs_config(tmp_path, source_column="2", target_column="1")
    assert pairs(swapped) == [(ja, en) for en, ja in chosen]


def test_tsv_and_csv_columns_by_name(tmp_path: Path, pairs_config: Config) -> None:
    """Guards data.header: columns are selected by name, in any order."""
    write(tmp_path / "a.tsv", "id\tja\ten\n" + "".join(f"{n}\t{ja}\t{en}\n" for n, (en, ja) in enumerate(PAIRS)))
    write(tmp_path / "b.csv", "ja,en\n" + "".join(f'{ja},"{en}, ""so"""\n' for en, ja in PAIRS))
    names = {"header": True, "source_column": "en", "target_column": "ja"}
    tsv, csv = (pairs_config(tmp_path / name, **names) for name in ("a.tsv", "b.csv"))
    assert all_pairs(tsv) == PAIRS
    assert all_pairs(csv) == [(f'{en}, "so"', ja) for en, ja in PAIRS]
    with pytest.raises(DataError, match=r"data.source_column=english.*id, ja, en"):
        load_rows(
            pairs_config(tmp_path / "a.tsv", header=True, source_column="english", target_column="ja"), "translate"
        )
    with pytest.raises(DataError, match=r"data.source_column=en: .*no header.*data.header=true"):
        load_rows(pairs_config(tmp_path / "a.tsv", source_column="en"), "translate")


def test_two_aligned_files_by_list_and_by_folder(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Moses-style corpora: two names separated by a comma, or language suffixes in a folder."""
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.en", side(PAIRS, 0))
        write(tmp_path / f"{split}.ja", side(PAIRS, 1)[:-1])  # no newline at the end
    listed = pairs_config(
        f"{tmp_path}/train.en,{tmp_path}/train.ja", valid_path=f"{tmp_path}/dev.en, {tmp_path}/dev.ja"
    )
    assert pairs(listed) == pairs(listed, "valid") == PAIRS
    folder = pairs_config(tmp_path, source_column="ja", target_column="en")
    assert pairs(folder) == pairs(folder, "valid") == [(ja, en) for en, ja in PAIRS]
    write(tmp_path / "dev.de", "".join(f"{n}\n" for n in range(40)))
    with pytest.raises(DataError, match=r"named by de, en, ja; choose .*data.source_column=de data.target_column=en"):
        load_rows(pairs_config(tmp_path), "translate")
    with pytest.raises(DataError, match=r"named by de, en, ja; choose"):
        load_rows(pairs_config(tmp_path, source_column="fr", target_column="en"), "translate")


def test_nested_columns_as_on_the_hub(tmp_path: Path, pairs_config: Config) -> None:
    """Guards the hub's translation format {"translation": {"en": …, "ja": …}}."""
    rows = "".join(json.dumps({"translation": {"en": en, "ja": ja}}) + "\n" for en, ja in PAIRS)
    names = {"source_column": "translation.en", "target_column": "translation.ja"}
    config = pairs_config(write(tmp_path / "train.jsonl", rows), **names)
    assert all_pairs(config) == PAIRS
    with pytest.raises(DataError, match=r"data.target_column=translation.de.*translation.en, translation.ja"):
        load_rows(
            pairs_config(config.path, source_column="translation.en", target_column="translation.de"), "translate"
        )


def test_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against learning to generate empty translations, and against dropping pairs silently."""
    lines = [*(f"{en}\t {ja}" for en, ja in PAIRS), "only English\t", "\tただ日本語", "", "both\t \u3000"]
    write(tmp_path / "train.tsv", "\n".join(lines) + "\n")
    write(tmp_path / "valid.tsv", "a\tb\n")
    rows = load(pairs_config(tmp_path), "translate")
    assert pairs(pairs_config(tmp_path)) == PAIRS
    assert "train: 4 pairs with an empty side were left out" in rows.notes


def test_tilde_expands_to_the_home_folder(
    tmp_path: Path, text_config: Config, pairs_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards paths after `=`, where the shell does not expand `~`: every path and each file of a list; an unknown home
    is an error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "texts" / "train.txt", "one")
    write(tmp_path / "texts" / "valid.txt", "two")
    write(tmp_path / "all,one.txt", "three")
    assert texts(text_config("~/texts"), "valid") == ["two"]
    named = text_config("~/all,one.txt", valid_path="~/texts/val*.txt", test_path="~/texts/train.txt")
    assert [texts(named, split) for split in ("train", "valid", "test")] == [["three"], ["two"], ["one"]]
    write(tmp_path / "a.en", side(PAIRS, 0))
    write(tmp_path / "a.ja", side(PAIRS, 1))
    assert pairs(pairs_config("~/a.en, ~/a.ja", valid_path="~/a.en,~/a.ja")) == PAIRS
    with pytest.raises(DataError, match=r"data.path=~nobody-here/a.txt: no such file"):
        texts(text_config("~nobody-here/a.txt"))
    write(tmp_path / "repo" / "train.jsonl", json.dumps({"text": "x"}) + "\n")
    hub = DataConfig(source="hub", path="~/repo", cache=str(tmp_path / "cache"), valid_fraction=0)
    with pytest.raises(DataError, match="no validation data"):
        load_rows(hub, "gpt")
