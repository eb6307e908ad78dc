"""Rows from the hub and from addresses, and a network that is not there."""

from __future__ import annotations

import hashlib
import json
import os
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

from data.config import DataConfig
from data.download import download
from data.errors import DataError
from data.sources import load_rows
from tests.data.conftest import made_pairs, pairs, texts, write

PAIRS = made_pairs(40)
Config = Callable[..., DataConfig]


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
