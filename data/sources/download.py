"""Download files from http(s) URLs into the cache; a file is fetched again only if it has changed."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import tempfile
import textwrap
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from tqdm import tqdm

from configs.atomic_file import flush, write_whole
from data.errors import DataError

_TIMEOUT = 30  # seconds without a response
_STALL = 60, 16 << 10
"""A transfer ends if it receives less than so many bytes in so many seconds: a server may send a byte now and then."""
_WAITS = (1, 5)  # seconds before the second and the third attempt at an incomplete download
_BLOCK = 1 << 20  # bytes read at a time
_RESERVED = "%/:=&?~#+!$,;'@()*[]"  # characters with a meaning in a URL


def is_url(path: str) -> bool:
    """Whether the path is an http or https URL."""
    return path.startswith(("http://", "https://"))


def download(url: str, folder: Path) -> Path:
    """Return the path of a local copy, named as in the URL. The server is queried for changes; if there is no response,
    the copy is used.

    An interrupted transfer is retried. (If the server sends neither length nor chunks, as in HTTP/1.0, a truncated
    transfer cannot be detected.) The downloader of `datasets` needs aiohttp for plain URLs but does not install it.
    Raises DataError if there is neither a response nor a copy, or if the copy cannot be written.
    """
    place = folder / hashlib.sha256(url.encode()).hexdigest()[:24]
    try:
        name = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path).replace("\0", "")).name
    except ValueError as error:
        raise DataError(f"{url}: is not a valid URL ({error})") from error
    # A short name of its own, not hidden: the URL's may be too long for a file, or that of the note. Its end tells the
    # format.
    ending = name[-60:].lstrip(".")
    ending = "download" if ending in ("", "validators.json") else ending
    copy, note = place / ending, place / "validators.json"
    waits = list(_WAITS)
    while True:
        try:
            return _fetched(url, copy, note)
        except _NoResponse as error:
            if error.may_pass and waits:
                time.sleep(waits.pop(0))
                continue
            if copy.is_file() and not error.may_pass:  # no response at all: the copy may be current
                return copy
            raise DataError(f"{url}: {error}") from error
        except OSError as error:
            raise DataError(
                f"data.cache: cannot write to {place} ({error.strerror}); free some space, or set data.cache to another"
                " folder"
            ) from error


class _NoResponse(Exception):
    """A failed download. `may_pass`: the server responded, so that another attempt may succeed."""

    def __init__(self, message: str, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


def _fetched(url: str, copy: Path, note: Path) -> Path:
    """Return the copy, downloaded again if the file has changed. Raises OSError if it cannot be written."""
    with _in_time(lambda: _opened(url, copy, note)) as answer:
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=copy.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                for block in _blocks(answer, copy.name):
                    file.write(block)
            flush(Path(partial))
            # Flushed in this order: after a power failure the note never belongs to another version of the file.
            note.unlink(missing_ok=True)
            flush(copy.parent)
            Path(partial).replace(copy)
            flush(copy.parent)
        finally:
            Path(partial).unlink(missing_ok=True)
        known = (
            ("If-None-Match", answer.headers.get("ETag")),
            ("If-Modified-Since", answer.headers.get("Last-Modified")),
        )
        write_whole(note, json.dumps({key: value for key, value in known if value}).encode())
        return copy


def _opened(url: str, copy: Path, note: Path) -> Any:
    """Return the server's response: the file, or 304 if the copy is current."""
    try:
        # A URL pasted from a browser may have spaces and non-ASCII letters.
        request = urllib.request.Request(urllib.parse.quote(url, safe=_RESERVED), headers={"User-Agent": "chumoku"})
        if copy.is_file():
            with suppress(FileNotFoundError, ValueError, TypeError):  # without a valid note: download again
                for header, value in dict(json.loads(note.read_text("utf-8"))).items():
                    request.add_header(header, value)
        return urllib.request.build_opener(_Redirects).open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_MODIFIED:
            return error
        reason = textwrap.shorten(str(error.reason), 200)
        if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _NoResponse(f"the server responds {error.code} {reason}", may_pass=True) from error
        raise DataError(f"{url}: the server responds {error.code} {reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = textwrap.shorten(str(getattr(error, "reason", error)) or type(error).__name__, 200)
        raise _NoResponse(f"cannot be reached ({reason})", may_pass=False) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https only."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Refuse other schemes: the library would also follow one to ftp."""
        if not is_url(newurl):
            raise urllib.error.HTTPError(newurl, code, "with a redirect that is not http(s)", headers, fp)
        fp.close()  # otherwise the library reads the rest of the response, of any length, into memory
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _in_time(connect: Callable[[], Any]) -> Any:
    """Return the result of `connect`, or raise what it raises; raises _NoResponse after _TIMEOUT seconds.

    The library's time limit is for each part of the response: headers that arrive byte by byte would take days.
    """
    results: Queue[tuple[Any, BaseException | None]] = Queue()

    def run() -> None:
        try:
            results.put((connect(), None))
        except BaseException as error:
            results.put((None, error))

    Thread(target=run, daemon=True).start()
    try:
        result, error = results.get(timeout=2 * _TIMEOUT)
    except Empty:
        raise _NoResponse(f"cannot be reached (no response within {2 * _TIMEOUT} seconds)", may_pass=False) from None
    if error is not None:
        raise error
    return result


def _blocks(answer: Any, name: str) -> Iterator[bytes]:
    """Yield the file in blocks. Raises _NoResponse if it is incomplete."""
    length = answer.headers.get("Content-Length")
    expected = int(length) if length and re.fullmatch("[0-9]{1,18}", length) else None
    received = recent = 0
    since = time.monotonic()
    with tqdm(total=expected, desc=name, unit="B", unit_scale=True, disable=None, delay=2, leave=False) as bar:
        while True:
            try:
                block = answer.read1(_BLOCK)  # what has arrived; `read` would wait for a whole block
            except (OSError, http.client.HTTPException) as error:
                raise _broken_off(received, expected) from error
            if not block:
                break
            received, recent = received + len(block), recent + len(block)
            if recent >= _STALL[1]:
                recent, since = 0, time.monotonic()
            elif time.monotonic() - since > _STALL[0]:
                raise _NoResponse(f"the transfer has stalled after {received:,} bytes; try again later", may_pass=True)
            bar.update(len(block))
            yield block
    if expected is not None and received != expected:
        raise _broken_off(received, expected)


def _broken_off(received: int, expected: int | None) -> _NoResponse:
    of = f" of {expected:,}" if expected else ""
    return _NoResponse(f"the connection was lost after {received:,}{of} bytes; try again later", may_pass=True)
