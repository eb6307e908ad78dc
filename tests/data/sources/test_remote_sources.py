"""Rows from the hub and from URLs, with and without a network."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import datasets
import huggingface_hub
import pytest

from data.config import DataConfig
from data.errors import DataError
from data.sources.download import download
from data.sources.sources import load
from tests.data.conftest import all_pairs, load_rows, made_pairs, pairs, side, texts, tsv, write

PAIRS = made_pairs(40)
Config = Callable[..., DataConfig]


def test_splits_of_a_hub_dataset_that_are_not_used_are_told(tmp_path: Path) -> None:
    """Guards against silently unused rows in splits with other names."""
    for name in ("train", "unsupervised"):
        write(
            tmp_path / "repo" / f"{name}.jsonl", "".join(json.dumps({"text": f"{name} {n}"}) + "\n" for n in range(20))
        )
    write(
        tmp_path / "repo" / "README.md",
        "---\nconfigs:\n- config_name: default\n  data_files:\n"
        "  - {split: train, path: train.jsonl}\n  - {split: unsupervised, path: unsupervised.jsonl}\n---\n",
    )
    config = DataConfig(source="hub", path=str(tmp_path / "repo"), cache=str(tmp_path / "cache"))
    assert "these splits of the dataset are not used: unsupervised" in load(config, "gpt").notes[0]
    assert len(load(config, "gpt")["train"]) == 18


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_split": "train["}, r"^data\.train_split=train\[: is not a split .*write .*train\[:10%\]"),
        ({"valid_split": "train[:5"}, r"^data\.valid_split=train\[:5: is not a split"),
        ({"test_split": "tset"}, r"^data\.path=\S+ data\.test_split=tset: .*Unknown split"),
        ({"revision": "v1"}, r"^data\.revision=v1: .*data\.path=\S+repo is a folder .*remove data\.revision"),
    ],
)
def test_a_setting_that_a_dataset_cannot_follow_is_named(
    settings: dict[str, str], message: str, tmp_path: Path
) -> None:
    """Guards against errors that blame the hub for a typing error, and a revision that is ignored."""
    write(tmp_path / "repo" / "train.jsonl", "".join(json.dumps({"text": f"{n}"}) + "\n" for n in range(20)))
    config = DataConfig(source="hub", path=str(tmp_path / "repo"), cache=str(tmp_path / "cache"), **settings)
    with pytest.raises(DataError, match=message):
        load_rows(config, "gpt")


def test_a_folder_whose_name_is_a_pattern_is_refused_for_the_hub(tmp_path: Path) -> None:
    """Guards against rows of other folders: the library interprets the name as a glob."""
    for name in ("repo?", "repo1"):
        write(tmp_path / name / "train.jsonl", json.dumps({"text": name}) + "\n")
    config = DataConfig(source="hub", path=str(tmp_path / "repo?"), cache=str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"^data.path=.*repo\?: .*rename the folder"):
        load_rows(config, "gpt")


def test_a_hub_name_that_cannot_be_reached_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a page of traceback on an offline machine."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        DataError, match=r"^data.path=nobody/nothing-here: there is no local copy.*HF_HUB_OFFLINE is set"
    ):
        load_rows(DataConfig(source="hub", path="nobody/nothing-here", cache=str(tmp_path / "cache")), "gpt")


def test_unreachable_hub_fails_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against half a minute of the library's retries and log lines; its settings are restored."""
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
    """Serves a folder and records requests and responses."""

    seen: list[tuple[str, int]]

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.seen.append((self.path, int(code)))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path, list[tuple[str, int]]]]:
    """Return (URL, served folder, requests with their status)."""
    folder = tmp_path / "served"
    folder.mkdir()
    with serving(type("Noting", (Server,), {"seen": []}), folder) as (address, seen):
        yield address, folder, seen


@contextmanager
def serving(handler: type[Server], folder: Path) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield (URL, requests with their status) of a server for a folder."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = Thread(target=partial(httpd.serve_forever, poll_interval=0.01), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", handler.seen
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_download_is_revalidated(server, text_config: Config) -> None:
    """Guards data.path=http://…: the second run revalidates and receives 304; a changed file is downloaded again."""
    address, folder, seen = server
    write(folder / "my book.txt", "a" * 100)
    config = text_config(f"{address}/my%20book.txt")
    assert texts(config) == ["a" * 90]
    assert texts(config) == ["a" * 90]
    assert [code for _, code in seen] == [200, 304]
    write(folder / "my book.txt", "b" * 100)
    os.utime(folder / "my book.txt", (2_000_000_000, 2_000_000_000))
    assert texts(config) == ["b" * 90]


def test_pairs_from_two_addresses_and_a_dead_server(server, pairs_config: Config) -> None:
    """Guards remote aligned files: the error names the URL and the response, or the reason why there is none."""
    address, folder, _ = server
    write(folder / "train.en", side(PAIRS, 0))
    write(folder / "train.ja", side(PAIRS, 1))
    config = pairs_config(f"{address}/train.en,{address}/train.ja")
    assert all_pairs(config) == PAIRS
    with pytest.raises(DataError, match=rf"{address}/gone.tsv: the server responds 404"):
        load_rows(pairs_config(f"{address}/gone.tsv"), "translate")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/a.tsv"
        with pytest.raises(DataError, match=rf"{dead}: cannot be reached"):
            load_rows(pairs_config(dead), "translate")


@pytest.mark.parametrize("left", ["", "{}", "[]", "5", '{"If-None'])
def test_a_file_is_fetched_again_where_the_note_of_its_version_is_damaged(server, tmp_path: Path, left: str) -> None:
    """Guards against an outdated copy that is used forever because a killed process left a damaged note."""
    address, folder, _ = server
    write(folder / "a.txt", "old")
    first = download(f"{address}/a.txt", tmp_path / "copies")
    first.with_name("validators.json").write_text(left, "utf-8")
    write(folder / "a.txt", "new")
    assert download(f"{address}/a.txt", tmp_path / "copies").read_text() == "new"
    assert json.loads(first.with_name("validators.json").read_text("utf-8"))


@pytest.mark.parametrize(("path", "name"), [(".hidden", "hidden"), ("..txt", "txt"), ("a.txt", "a.txt")])
def test_a_copy_is_never_a_hidden_file(server, tmp_path: Path, path: str, name: str) -> None:
    """Guards against a copy in the cache that looks like a partial file."""
    address, folder, _ = server
    write(folder / path, "text")
    assert download(f"{address}/{path}", tmp_path / "copies").name == name


def test_a_copy_of_an_address_serves_when_the_server_is_gone(server, tmp_path: Path) -> None:
    """Guards offline training: a downloaded file needs no network."""
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
        note.rename(note.parent / hashlib.sha256(dead.encode()).hexdigest()[:24])
        assert download(dead, tmp_path / "copies").read_text() == "text"


class Breaking(Server):
    """Serves the file, but aborts the first `broken` responses; `style`: how the length is sent."""

    broken: int
    style: str

    def do_GET(self) -> None:
        """Send half of the file, or all of it."""
        content = Path(self.translate_path(self.path)).read_bytes()
        whole = len([code for _, code in self.seen if code == 200]) >= self.broken
        sent = content if whole else content[: len(content) // 2]
        self.protocol_version = "HTTP/1.1"
        self.close_connection = True
        if self.style == "busy" and not whole:
            self.log_request(200)
            self.send_error(503)
            return
        self.send_response(200)
        if self.style == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.style == "chunked":
            self.wfile.write(f"{len(content):x}\r\n".encode() + sent + (b"\r\n0\r\n\r\n" if whole else b""))
        else:
            self.wfile.write(sent)


@pytest.mark.parametrize("style", ["chunked", "length", "busy"])
def test_interrupted_download_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    """Guards interrupted downloads: an incomplete file is neither used nor kept (including chunked transfers without a
    length); after the last attempt, the error is one line, and an older copy is not used instead."""
    monkeypatch.setattr("data.sources.download._WAITS", (0, 0))
    write(tmp_path / "served" / "a.txt", "text " * 100_000)
    with serving(type("Handler", (Breaking,), {"seen": [], "broken": 2, "style": style}), tmp_path / "served") as (
        address,
        _,
    ):
        assert download(f"{address}/a.txt", tmp_path / "copies").read_text() == "text " * 100_000
    with serving(type("Handler", (Breaking,), {"seen": [], "broken": 99, "style": style}), tmp_path / "served") as (
        address,
        _,
    ):
        with pytest.raises(
            DataError, match=rf"^{address}/a.txt: (the connection was lost after |the server responds 503).*$"
        ):
            download(f"{address}/a.txt", tmp_path / "others")
        assert [path for path in (tmp_path / "others").rglob("*") if path.is_file()] == []
        copy = tmp_path / "others" / hashlib.sha256(f"{address}/a.txt".encode()).hexdigest()[:24] / "a.txt"
        write(copy, "an older file")
        with pytest.raises(DataError):
            download(f"{address}/a.txt", tmp_path / "others")
        assert copy.read_text() == "an older file"


@pytest.mark.parametrize(
    "address", ["http://", "http://[broken/a.txt", "http://127.0.0.1:port/a.txt", "http://a\nb/c.txt"]
)
def test_invalid_url_error(tmp_path: Path, address: str) -> None:
    """Guards against a traceback for a mistyped URL."""
    with pytest.raises(DataError, match=r"cannot be reached|is not a valid URL"):
        download(address, tmp_path)


def test_an_address_may_hold_commas_spaces_and_any_letters(server, text_config: Config, pairs_config: Config) -> None:
    """Guards URLs as a browser shows them: a comma does not separate two files, not even for pairs."""
    address, folder, _ = server
    write(folder / "Poe, Edgar é.txt", "a" * 100)
    assert texts(text_config(f"{address}/Poe, Edgar é.txt")) == ["a" * 90]
    write(folder / "en,ja.tsv", tsv(PAIRS))
    config = pairs_config(f"{address}/en,ja.tsv")
    assert all_pairs(config) == PAIRS


def test_a_cache_that_cannot_be_written_is_named(server, tmp_path: Path) -> None:
    """Guards full disks and read-only folders: the message names data.cache, not the URL."""
    address, folder, _ = server
    write(folder / "a.txt", "text")
    write(tmp_path / "file", "in the way")
    with pytest.raises(DataError, match=r"data.cache: cannot write to .*file"):
        download(f"{address}/a.txt", tmp_path / "file")


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
    write(tmp_path / "a.tsv", tsv(PAIRS))
    for kind in ("parquet", "jsonl", "tsv"):
        assert len(pairs(pairs_config(tmp_path / f"a.{kind}"))) == 36
    assert asked == []
