"""Servers that stall, redirect elsewhere or lie: one clear error in time, and nothing written elsewhere."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from data.errors import DataError
from data.sources import download as downloads
from data.sources.download import download

Serve = Callable[..., str]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(part, …, pause=…, repeat=…)`: start a server that sends these bytes to every request, with a pause before
    each part but the first, the last one again and again if `repeat` -> its address. Time limits are short."""
    monkeypatch.setattr(downloads, "_TIMEOUT", 0.5)
    monkeypatch.setattr(downloads, "_WAITS", (0, 0))
    monkeypatch.setattr(downloads, "_STALL", (0.5, 10_000))
    servers = []

    def start(*parts: bytes, pause: float = 0.0, repeat: bool = False) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def answer(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                connection.recv(65536)
                for number, part in enumerate(parts):
                    time.sleep(pause if number else 0)
                    connection.sendall(part)
                while repeat:
                    time.sleep(pause)
                    connection.sendall(parts[-1])

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def response(*headers: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    """Return the bytes of a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([b"", b"x" * 9], r"cannot be reached \(timed out\)"),
        ([b"HTTP/1.1 200 OK\r\nX: ", b"y"], r"cannot be reached \(no response within 1.0 seconds\)"),
        ([response("Content-Length: 99999999", body=b"some "), b"x"], r"the transfer has stalled after \d+ bytes"),
        ([response(body=b"no length "), b"x"], r"the transfer has stalled after \d+ bytes"),
        (
            [response("Transfer-Encoding: chunked", body=b"ffffff\r\n"), b"x"],
            r"the transfer has stalled after \d+ bytes",
        ),
    ],
)
def test_stalled_download_times_out(tmp_path: Path, serve: Serve, parts: list[bytes], reason: str) -> None:
    """Guards against waiting for days: the library's limit starts again with every byte, in headers and in the body."""
    stalls = "timed out" in reason
    address = serve(*parts, pause=60 if stalls else 0.05, repeat=not stalls)
    with pytest.raises(DataError, match=rf"^{address}/a.txt: {reason}"):
        download(f"{address}/a.txt", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_slow_steady_download_completes(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against leaving a slow connection that keeps its pace."""
    monkeypatch.setattr(downloads, "_TIMEOUT", 20)
    address = serve(response("Content-Length: 150000"), *[b"x" * 15_000] * 10, pause=0.1)
    assert len(download(f"{address}/a.txt", tmp_path).read_bytes()) == 150_000


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/a.txt", "data:,x", "gopher://x", "/again"])
def test_a_redirect_to_anything_but_http_is_refused(tmp_path: Path, serve: Serve, place: str) -> None:
    """Guards against a server that lets the program read local files, and an endless redirect."""
    address = serve(response(f"Location: {place}", "Content-Length: 0", status="302 Found"))
    with pytest.raises(DataError, match=r"the server responds 302 .*[Rr]edirect") as refused:
        download(f"{address}/a.txt", tmp_path)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_redirect_body_is_not_read(tmp_path: Path, serve: Serve) -> None:
    """Guards against a redirect with a body that never ends or is larger than the memory."""
    place = serve(response("Content-Length: 4", body=b"text"))
    redirect = response(f"Location: {place}/b.txt", f"Content-Length: {10**14}", status="301 Moved")
    address = serve(redirect, b"x", pause=0.1, repeat=True)
    assert download(f"{address}/a.txt", tmp_path).read_bytes() == b"text"


@pytest.mark.parametrize("length", ["9" * 5000, "-5", "²", "1e3"])
def test_invalid_content_length_is_ignored(tmp_path: Path, serve: Serve, length: str) -> None:
    """Guards against a traceback for a number of 5,000 digits."""
    address = serve(response(f"Content-Length: {length}", "Connection: close", body=b"text"))
    assert download(f"{address}/a.txt", tmp_path).read_bytes() == b"text"


@pytest.mark.parametrize(
    "name",
    [
        "validators.json",
        "..",
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2fevil.txt",
        "a%00b.txt",
        "é" * 300 + ".txt",
        "",
        ".",
        "%5c..%5cx",
    ],
)
def test_url_file_names_stay_inside_the_cache(tmp_path: Path, serve: Serve, name: str) -> None:
    """Guards against a file written outside the cache, one replaced by the note of its version, and a traceback."""
    cache = tmp_path / "a" / "b" / "cache"
    address = serve(response('ETag: "1"', "Content-Length: 4", body=b"text"))
    copy = download(f"{address}/{name}", cache)
    assert copy.read_bytes() == b"text"
    assert copy.parent.parent == cache
    assert [path for path in tmp_path.rglob("*") if path.is_file() and cache not in path.parents] == []
