"""Rows from every kind of source, and what is said about bad ones."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import datasets
import huggingface_hub
import pytest

from data.config import DataConfig, TokenizerConfig
from data.errors import DataError
from data.prepare import prepare
from data.sources import load, load_rows
from tests.data.conftest import made_pairs, made_text

PAIRS = made_pairs(40)
Config = Callable[..., DataConfig]


def texts(config: DataConfig, split: str = "train") -> list[str]:
    return load_rows(config, "gpt")[split]["text"][:]


def pairs(config: DataConfig, split: str = "train") -> list[tuple[str, str]]:
    rows = load_rows(config, "translate")[split]
    return list(zip(rows["source"][:], rows["target"][:], strict=True))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Running text


def test_a_text_file_is_split_by_characters_at_its_end(tmp_path: Path, text_config: Config) -> None:
    """Guards comparability with nanoGPT: train is the first int(0.9 n) characters, validation all the rest."""
    text = made_text(99) + "猫が座った。"
    config = text_config(write(tmp_path / "book.txt", text))
    assert texts(config) == [text[: int(0.9 * len(text))]]
    assert texts(config, "valid") == [text[int(0.9 * len(text)) :]]
    halves = text_config(config.path, valid_fraction=0.2, test_fraction=0.3)
    assert "".join(texts(halves)[0] + texts(halves, "valid")[0] + texts(halves, "test")[0]) == text
    assert len(texts(halves, "test")[0]) == pytest.approx(0.3 * len(text), abs=1)


def test_text_survives_windows_line_ends_and_byte_order_marks(tmp_path: Path, text_config: Config) -> None:
    """Guards files from Windows; and odd separators (U+2028, form feed, a lone \\r) stay characters of their line."""
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo \xe2\x80\xa8 \x0c x\ry\r\n" + b"end\n" * 50)
    config = text_config(path, valid_path=str(path))
    assert texts(config) == ["one\ntwo \u2028 \x0c x\ry\n" + "end\n" * 50]


def test_rows_of_text_may_be_documents_paragraphs_or_lines(tmp_path: Path, text_config: Config) -> None:
    """Guards data.rows."""
    write(tmp_path / "train.txt", "one\ntwo\n\n  \nthree\n")
    write(tmp_path / "valid.txt", "x\n")
    assert texts(text_config(tmp_path)) == ["one\ntwo\n\n  \nthree\n"]
    assert texts(text_config(tmp_path, rows="paragraph")) == ["one\ntwo", "three"]
    assert texts(text_config(tmp_path, rows="line")) == ["one", "two", "  ", "three"]


def test_a_glob_is_one_document_per_file(tmp_path: Path, text_config: Config) -> None:
    """Guards globs: files in order of name, cut at the end of the last."""
    for name in "bca":
        write(tmp_path / "books" / f"{name}.txt", name * 100)
    config = text_config(tmp_path / "books" / "*.txt")
    assert texts(config) == ["a" * 100, "b" * 100, "c" * 70]
    assert texts(config, "valid") == ["c" * 30]


@pytest.mark.parametrize(
    "names", [("train.txt", "valid.txt", "test.txt"), ("wiki.train.txt", "wiki.val.txt", "wiki.test.txt")]
)
def test_a_folder_is_searched_for_files_named_after_splits(tmp_path: Path, text_config: Config, names) -> None:
    """Guards the ways people name their splits; other files in the folder are no data."""
    for name in names:
        write(tmp_path / name, f"text of {name}")
    write(tmp_path / "README.txt", "not data")
    write(tmp_path / "BOOKS.list", "not data")
    for split, name in zip(("train", "valid", "test"), names, strict=True):
        assert texts(text_config(tmp_path), split) == [f"text of {name}"]


def test_a_folder_without_split_names_is_one_corpus(tmp_path: Path, text_config: Config) -> None:
    """Guards the simplest case: a folder of texts."""
    write(tmp_path / "one.txt", "a" * 50)
    write(tmp_path / "two.txt", "b" * 50)
    assert texts(text_config(tmp_path)) == ["a" * 50, "b" * 40]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv", "tsv"])
def test_tables_of_text(tmp_path: Path, text_config: Config, kind: str) -> None:
    """Guards every table format: the chosen column, exactly, quotes and line breaks in it included."""
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
        write(path, "id\tbody\n" + "".join(f"{n}\t{row}\n" for n, row in enumerate(rows)))
    config = text_config(path, text_column="body", header=True)
    assert texts(config) + texts(config, "valid") == rows
    with pytest.raises(DataError, match=r"data.text_column=wrong.*body"):
        load_rows(text_config(path, text_column="wrong", header=True), "gpt")


def test_max_rows_shortens_training_alone(tmp_path: Path, pairs_config: Config) -> None:
    """Guards quick trials: validation stays whole."""
    write(tmp_path / "all.tsv", "".join(f"{a}\t{b}\n" for a, b in PAIRS))
    config = pairs_config(tmp_path / "all.tsv", max_rows=7)
    assert pairs(config) == PAIRS[:7]
    assert pairs(config, "valid") == PAIRS[36:]


# Sentence pairs


def test_tsv_without_header_or_quoting(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Tatoeba's format: columns 1 and 2, quotes are characters, words such as NA or null are words, ids ignored."""
    chosen = [('"Yes', "「はい」"), ("NA", "null"), ("None", "nan"), ("1", "一"), *PAIRS]
    write(tmp_path / "train.tsv", "".join(f"{en}\t{ja}\t{n}\t7\n" for n, (en, ja) in enumerate(chosen)))
    write(tmp_path / "valid.tsv", "".join(f"{en}\t{ja}\n" for en, ja in PAIRS))
    assert pairs(pairs_config(tmp_path)) == chosen
    swapped = pairs_config(tmp_path, source_column="2", target_column="1")
    assert pairs(swapped) == [(ja, en) for en, ja in chosen]


def test_tsv_and_csv_columns_by_name(tmp_path: Path, pairs_config: Config) -> None:
    """Guards data.header: columns by name, in any order."""
    write(tmp_path / "a.tsv", "id\tja\ten\n" + "".join(f"{n}\t{ja}\t{en}\n" for n, (en, ja) in enumerate(PAIRS)))
    write(tmp_path / "b.csv", "ja,en\n" + "".join(f'{ja},"{en}, ""so"""\n' for en, ja in PAIRS))
    names = {"header": True, "source_column": "en", "target_column": "ja"}
    tsv, csv = (pairs_config(tmp_path / name, **names) for name in ("a.tsv", "b.csv"))
    assert pairs(tsv) + pairs(tsv, "valid") == PAIRS
    assert pairs(csv) + pairs(csv, "valid") == [(f'{en}, "so"', ja) for en, ja in PAIRS]
    with pytest.raises(DataError, match=r"data.source_column=english.*id, ja, en"):
        load_rows(
            pairs_config(tmp_path / "a.tsv", header=True, source_column="english", target_column="ja"), "translate"
        )
    with pytest.raises(DataError, match=r"data.source_column=en: .*no header.*data.header=true"):
        load_rows(pairs_config(tmp_path / "a.tsv", source_column="en"), "translate")


def test_two_aligned_files_by_list_and_by_folder(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Moses-style corpora: names joined by a comma, or language suffixes in a folder."""
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.en", "".join(f"{en}\n" for en, _ in PAIRS))
        write(tmp_path / f"{split}.ja", "".join(f"{ja}\n" for _, ja in PAIRS)[:-1])  # no newline at the end
    listed = pairs_config(
        f"{tmp_path}/train.en,{tmp_path}/train.ja", valid_path=f"{tmp_path}/dev.en, {tmp_path}/dev.ja"
    )
    assert pairs(listed) == pairs(listed, "valid") == PAIRS
    folder = pairs_config(tmp_path, source_column="ja", target_column="en")
    assert pairs(folder) == pairs(folder, "valid") == [(ja, en) for en, ja in PAIRS]
    with pytest.raises(DataError, match=r"data.source_column=en data.target_column=ja"):
        load_rows(pairs_config(tmp_path), "translate")


def test_nested_columns_as_on_the_hub(tmp_path: Path, pairs_config: Config) -> None:
    """Guards the hub's translation format {"translation": {"en": …, "ja": …}}."""
    rows = "".join(json.dumps({"translation": {"en": en, "ja": ja}}) + "\n" for en, ja in PAIRS)
    names = {"source_column": "translation.en", "target_column": "translation.ja"}
    config = pairs_config(write(tmp_path / "train.jsonl", rows), **names)
    assert pairs(config) + pairs(config, "valid") == PAIRS
    with pytest.raises(DataError, match=r"data.target_column=translation.de.*translation.en, translation.ja"):
        load_rows(
            pairs_config(config.path, source_column="translation.en", target_column="translation.de"), "translate"
        )


def test_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against learning to write nothing, and against dropping it unsaid."""
    lines = [*(f"{en}\t {ja}" for en, ja in PAIRS), "only English\t", "\tただ日本語", "", "both\t \u3000"]
    write(tmp_path / "train.tsv", "\n".join(lines) + "\n")
    write(tmp_path / "valid.tsv", "a\tb\n")
    rows = load(pairs_config(tmp_path), "translate")
    assert pairs(pairs_config(tmp_path)) == PAIRS
    assert rows.notes == ["train: 4 pairs with an empty side were left out"]


# Hub, addresses, embedded corpus


def test_a_hub_dataset_by_its_splits(tmp_path: Path) -> None:
    """Guards data=hub (a folder stands in for the name: the library resolves both alike): split and column names."""
    for split, name in (("train", "train"), ("validation", "validation"), ("test", "test")):
        write(
            tmp_path / "repo" / f"{name}.jsonl", "".join(json.dumps({"text": f"{split} {n}"}) + "\n" for n in range(3))
        )
    config = DataConfig(source="hub", path=str(tmp_path / "repo"), cache=str(tmp_path / "cache"))
    assert {split: rows["text"][:] for split, rows in load_rows(config, "gpt").items()} == {
        "train": ["train 0", "train 1", "train 2"],
        "valid": ["validation 0", "validation 1", "validation 2"],
        "test": ["test 0", "test 1", "test 2"],
    }


def test_a_hub_name_that_cannot_be_reached_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards offline machines from a page of traceback."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        DataError, match=r"^data.path=nobody/nothing-here: there is no local copy.*HF_HUB_OFFLINE is set"
    ):
        load_rows(DataConfig(source="hub", path="nobody/nothing-here", cache=str(tmp_path / "cache")), "gpt")


def test_a_hub_that_does_not_answer_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against half a minute of the library's retries and their log lines; its settings are restored."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        started = time.monotonic()
        with pytest.raises(DataError, match=rf"nobody/nothing-here: .*hub cannot be reached: {address} \(.*\)$"):
            load_rows(DataConfig(source="hub", path="nobody/nothing-here", cache=str(tmp_path / "cache")), "gpt")
    assert time.monotonic() - started < 8
    assert caplog.messages == []
    assert capfd.readouterr() == ("", "")
    assert not datasets.config.HF_HUB_OFFLINE
    assert not huggingface_hub.constants.HF_HUB_OFFLINE


class Server(SimpleHTTPRequestHandler):
    """Serves a folder and notes what was asked and answered."""

    seen: list[tuple[str, int]]

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.seen.append((self.path, int(code)))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path, list[tuple[str, int]]]]:
    """(address, folder behind it, requests with their status)."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = type("Noting", (Server,), {"seen": []})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", folder, handler.seen
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_an_address_is_fetched_once_and_again_when_it_changed(server, text_config: Config) -> None:
    """Guards data.path=http://…: the second start asks and is told 304; a changed file is fetched anew."""
    address, folder, seen = server
    write(folder / "my book.txt", "a" * 100)
    config = text_config(f"{address}/my%20book.txt")
    assert texts(config) == ["a" * 90]
    assert texts(config) == ["a" * 90]
    assert [code for _, code in seen] == [200, 304]
    write(folder / "my book.txt", "b" * 100)
    import os

    os.utime(folder / "my book.txt", (2_000_000_000, 2_000_000_000))
    assert texts(config) == ["b" * 90]


def test_pairs_from_two_addresses_and_a_dead_server(server, pairs_config: Config) -> None:
    """Guards remote aligned files; a missing one names the address and the answer, an unreachable one the reason."""
    address, folder, _ = server
    write(folder / "train.en", "".join(f"{en}\n" for en, _ in PAIRS))
    write(folder / "train.ja", "".join(f"{ja}\n" for _, ja in PAIRS))
    config = pairs_config(f"{address}/train.en,{address}/train.ja")
    assert pairs(config) + pairs(config, "valid") == PAIRS
    with pytest.raises(DataError, match=rf"{address}/gone.tsv: the server answers 404"):
        load_rows(pairs_config(f"{address}/gone.tsv"), "translate")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/a.tsv"
        with pytest.raises(DataError, match=rf"{dead}: cannot be reached"):
            load_rows(pairs_config(dead), "translate")


def test_a_copy_of_an_address_serves_when_the_server_is_gone(server, tmp_path: Path) -> None:
    """Guards training on a train: once fetched, the network is not needed."""
    from data.download import download

    address, folder, _ = server
    write(folder / "a.txt", "text")
    first = download(f"{address}/a.txt", tmp_path / "copies")
    port = address.rsplit(":", 1)[1]
    assert first.read_text() == "text"
    note = first.parent
    # The same address with nothing behind it: a fresh folder, named as for the dead port, holding the copy.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/a.txt"
        assert port not in dead
        import hashlib

        note.rename(note.parent / hashlib.sha256(dead.encode()).hexdigest()[:24])
        assert download(dead, tmp_path / "copies").read_text() == "text"


def test_local_files_need_no_network(tmp_path: Path, pairs_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards offline use and privacy: no library opens a connection for a local file."""
    asked: list[object] = []

    def refuse(self: socket.socket, address: object) -> None:
        asked.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    table = datasets.Dataset.from_dict({"source": [en for en, _ in PAIRS], "target": [ja for _, ja in PAIRS]})
    table.to_parquet(str(tmp_path / "a.parquet"))
    write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in table))
    write(tmp_path / "a.tsv", "".join(f"{en}\t{ja}\n" for en, ja in PAIRS))
    for kind in ("parquet", "jsonl", "tsv"):
        assert len(pairs(pairs_config(tmp_path / f"a.{kind}"))) == 36
    assert asked == []


def test_a_tilde_is_the_home_folder(
    tmp_path: Path, text_config: Config, pairs_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards paths behind `=`, where no shell expands `~`: every path, each file of a list; an unknown home is told."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "texts" / "train.txt", "one")
    write(tmp_path / "texts" / "valid.txt", "two")
    write(tmp_path / "all,one.txt", "three")
    assert texts(text_config("~/texts"), "valid") == ["two"]
    named = text_config("~/all,one.txt", valid_path="~/texts/val*.txt", test_path="~/texts/train.txt")
    assert [texts(named, split) for split in ("train", "valid", "test")] == [["three"], ["two"], ["one"]]
    write(tmp_path / "a.en", "".join(f"{en}\n" for en, _ in PAIRS))
    write(tmp_path / "a.ja", "".join(f"{ja}\n" for _, ja in PAIRS))
    assert pairs(pairs_config("~/a.en, ~/a.ja", valid_path="~/a.en,~/a.ja")) == PAIRS
    with pytest.raises(DataError, match=r"data.path=~nobody-here/a.txt: no such file"):
        texts(text_config("~nobody-here/a.txt"))
    write(tmp_path / "repo" / "train.jsonl", json.dumps({"text": "x"}) + "\n")
    hub = DataConfig(source="hub", path="~/repo", cache=str(tmp_path / "cache"), valid_fraction=0)
    with pytest.raises(DataError, match="no validation data"):
        load_rows(hub, "gpt")


# Complaints


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"data.path=.*book.txt: no such file or folder"),
        (b"", r"book.txt: the file is empty"),
        (b"\n\n\r\n", r"book.txt: the file is empty"),
        (
            "良い\n日本".encode() + b"\n\x8b\xc7 Shift-JIS",
            r"book.txt, line 3: not UTF-8 \(byte 0x8b at offset 14\); .*iconv",
        ),
        (b"cut off \xe3\x81", r"book.txt, line 1: not UTF-8 \(byte 0xe3 at offset 8\)"),
        (b"x", r"data.path: the text is too short"),
    ],
)
def test_a_bad_text_file_is_explained(tmp_path: Path, text_config: Config, content: bytes | None, message: str) -> None:
    """Guards the first minute of a new user: file, line and fix; nothing half-made stays in the cache."""
    if content is not None:
        write(tmp_path / "book.txt", content)
    with pytest.raises(DataError, match=message):
        load_rows(text_config(tmp_path / "book.txt"), "gpt")
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []


def test_bytes_that_are_not_utf8_are_found_beyond_the_first_block(tmp_path: Path, text_config: Config) -> None:
    """Guards the offset of an error in a large file, where a character may lie across two reads."""
    good = "猫\n" * (2_000_000)
    write(tmp_path / "book.txt", good.encode() + b"\xff\n")
    with pytest.raises(DataError, match=rf"line 2000001: not UTF-8 \(byte 0xff at offset {4 * 2_000_000}\)"):
        load_rows(text_config(tmp_path / "book.txt"), "gpt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "one\t一\ntwo\n",
            r"a.tsv, line 2: there is no column 2 \(data.target_column=target\); the line has 1",
        ),
        ("a.csv", "one,一\n\ntwo\n", r"a.csv, line 3: there is no column 2 \(data.target_column=target\)"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": \n', r"a.jsonl, line 2: cannot be read as json"),
        ("a.jsonl", '{"source": "a"}\n', r"data.target_column=target: .*a.jsonl has no such column; it has: source"),
        ("a.jsonl", '{"source": "a", "target": 3}\n', r"data.target_column=target: .*holds int there, not text"),
        ("a.parquet", "no parquet", r"a.parquet: cannot be read as parquet"),
        ("a.tsv", "\t\n\t\n", r"no rows are left: every line is empty"),
    ],
)
def test_a_bad_table_is_explained(tmp_path: Path, pairs_config: Config, name: str, content: str, message: str) -> None:
    """Guards tables: the line where it goes wrong and the key that names the column."""
    write(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        load_rows(pairs_config(tmp_path / name), "translate")


def test_one_side_longer_than_the_other_names_both_counts(tmp_path: Path, pairs_config: Config) -> None:
    """Guards aligned files: a shifted corpus trains to nonsense without any other sign."""
    write(tmp_path / "a.en", "one\ntwo\nthree\n")
    write(tmp_path / "a.ja", "一\n二")
    with pytest.raises(DataError, match=r"a.en has 3 lines but .*a.ja has 2"):
        load_rows(pairs_config(f"{tmp_path}/a.en,{tmp_path}/a.ja"), "translate")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "*.nothing"}, r"data.path=.*: no file matches"),
        ({"path": "."}, r"the folder is empty"),
        ({"path": "a.txt,b.txt"}, r"data.path=.*: a list of two files is for data=pairs"),
        ({"path": "book.txt", "valid_path": "gone.txt"}, r"data.valid_path=.*gone.txt: no such file"),
        ({"path": "book.txt", "valid_fraction": 0.0}, r"no validation data: set data.valid_fraction .*data.valid_path"),
        ({"path": "book.txt", "split": "random"}, r"1 rows are too few .*data.rows=paragraph"),
    ],
)
def test_paths_and_splits_that_lead_nowhere_are_explained(
    tmp_path: Path, text_config: Config, settings, message: str
) -> None:
    """Guards mistyped settings: the message names the key."""
    folder = tmp_path / "texts"
    folder.mkdir()
    if settings["path"] == "book.txt":
        write(folder / "book.txt", made_text())
    paths = {
        name: ",".join(str(folder / part) for part in value.split(",")) if name.endswith("path") else value
        for name, value in settings.items()
    }
    with pytest.raises(DataError, match=message):
        load_rows(text_config(**paths), "gpt")


@pytest.mark.parametrize(
    ("context", "tokenizer", "message"),
    [
        (
            50000,
            TokenizerConfig(kind="char"),
            r"model.context=50000 is longer than the text: .* has \d+ tokens; set model.context",
        ),
        (8, TokenizerConfig(kind="bpe", vocab_size=9999), r"tokenizer.vocab_size=9999 .* set it to at most \d+"),
    ],
)
def test_settings_that_do_not_fit_the_text_are_explained(
    tmp_path: Path, text_config: Config, context, tokenizer, message
) -> None:
    """Guards small texts with the settings of large ones."""
    config = text_config(write(tmp_path / "book.txt", made_text(160)))
    with pytest.raises(DataError, match=message):
        prepare("gpt", config, tokenizer, context, seed=0)
