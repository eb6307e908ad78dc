"""Data from a server that stalls, redirects, lies about the length, breaks off, or sends garbage."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import datasets  # noqa: F401 - half a second, once instead of in every child
from hypothesis import strategies as st

from configs.errors import UserError
from data.config import DataConfig, TokenizerConfig
from data.sources import download
from data.token_cache import prepare
from tests.robustness.fuzz.values import raw
from training.config import TrainConfig, problems

STATUS = (
    *("200 OK", "200 OK", "200 OK", "204 No Content", "206 Partial", "301 Moved", "302 Found", "303 Other", "307 T"),
    *("308 P", "304 Not Modified", "400 Bad", "401 Who", "404 Gone", "429 Slow", "500 Oh", "503 Busy", "999 ?"),
    *("-1 x", "abc", "20", ""),
)
LENGTHS = ("right", "absent", "0", "1", "-1", "99999999999", "9" * 5000, "x", "", "1, 2", "٣", "1e3")
PLACES = (
    *"""/again // file:///etc/passwd ftp://127.0.0.1/x http://127.0.0.1:1/x javascript:1 data:,x http://[ gopher://x
    HTTP://127.0.0.1 http://user:secret@127.0.0.1:1/""".split(),
    *("", "\x00", "/" * 5000, "/a b"),
)
PATHS = (
    *"""/book.txt / /.. /%2e%2e/%2e%2e/evil /a%00b.txt /validators.json /%ff.txt /a?b=c#d /.hidden /a,b.txt /注目.txt
    /x.parquet /x.jsonl /x.csv //book.txt /book.txt/ /book.txt%0a""".split(),
    *("", "/" + "a" * 400 + ".txt"),
)
HEADERS = (
    *(
        b"",
        b"",
        b"",
        b"ETag: \xff\r\n",
        b"X: " + b"y" * 70_000 + b"\r\n",
        b"X: y\r\n" * 200,
        b"no colon\r\n",
        b"\0\r\n",
    ),
)
ENCODINGS = ("", "", "", "chunked", "gzip", "identity, chunked", "x")


@dataclass(frozen=True)
class Remote:
    """What a server answers to every request."""

    path: str
    status: str
    length: str
    encoding: str
    place: str
    headers: bytes
    body: bytes
    ending: str
    """`close`, `reset`, `stall` or `trickle`."""
    after: float
    """Share of the response that is sent before the end."""

    def prepare(self, folder: Path) -> None:
        """Shorten the time limits, so that a stall costs half a second."""
        download._TIMEOUT, download._WAITS, download._STALL = 0.25, (0, 0), (0.4, 1000)  # type: ignore[assignment]

    def response(self) -> bytes:
        """Return the whole response."""
        lines = [f"HTTP/1.1 {self.status}".encode()]
        if self.length != "absent":
            length = str(len(self.body)) if self.length == "right" else self.length
            lines.append(b"Content-Length: " + length.encode())
        if self.encoding:
            lines.append(b"Transfer-Encoding: " + self.encoding.encode())
        if self.status[:1] == "3":
            lines.append(b"Location: " + self.place.encode())
        body = self.body
        if self.encoding == "chunked":
            body = f"{len(self.body):x}\r\n".encode() + self.body + b"\r\n0\r\n\r\n"
        return b"\r\n".join(lines) + b"\r\n" + self.headers + b"\r\n" + body

    def act(self) -> None:
        """Start the server, and prepare data from it."""
        server = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._serve, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}{self.path}"
        config = DataConfig(source="text", path=url, cache=".cache")
        tokenizer = TokenizerConfig()
        if result := problems(TrainConfig(data=config, tokenizer=tokenizer)):
            raise UserError(*result)
        prepare("gpt", config, tokenizer, 8, 1)

    def _serve(self, server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            whole = self.response()
            cut = whole if self.ending == "close" else whole[: int(self.after * len(whole))]
            connection.sendall(cut)
            if self.ending == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif self.ending == "stall":
                time.sleep(30)
            elif self.ending == "trickle":
                for byte in (whole[len(cut) :] or b"x") * 9999:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)


def cases() -> st.SearchStrategy[Remote]:
    """Return one behaviour each."""
    book = b"The red fox sees the old barn, and the hen.\n" * 20
    return st.builds(
        Remote,
        st.sampled_from(PATHS),
        st.sampled_from(STATUS),
        st.sampled_from(("right", "right", "right", *LENGTHS)),
        st.sampled_from(ENCODINGS),
        st.sampled_from(PLACES),
        st.sampled_from(HEADERS),
        st.sampled_from((book, book, book, b"", b"x", b"\xff" * 99)) | raw,
        st.sampled_from(("close", "close", "close", "reset", "stall", "trickle")),
        st.sampled_from((0.0, 0.1, 0.5, 0.99)),
    )
