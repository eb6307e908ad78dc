"""Files from http(s) addresses, kept in the cache and fetched again only when they changed."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tqdm import tqdm

from configs.whole_file import flush, write_whole
from data.errors import DataError

_TIMEOUT = 30  # seconds without an answer
_WAITS = (1, 5)  # seconds before the second and the third attempt at a file that did not arrive whole
_BLOCK = 1 << 20  # bytes read at a time
_IN_ADDRESSES = "%/:=&?~#+!$,;'@()*[]"  # characters with a meaning in an address


def is_url(path: str) -> bool:
    """True for http and https addresses."""
    return path.startswith(("http://", "https://"))


def download(url: str, folder: Path) -> Path:
    """Path of a local copy, named as in the address. Asks the server whether the copy is still good; without an answer
    it is used.

    A transfer that breaks off is tried again. (One without a length that is not chunked either, as in HTTP/1.0, ends
    like a whole one: nothing can tell them apart.) The hub library's own downloader needs aiohttp for plain addresses,
    which it does not install. Raises DataError when there is neither an answer nor a copy, or the copy cannot be
    written.
    """
    place = folder / hashlib.sha256(url.encode()).hexdigest()[:24]
    try:
        name = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name or "download"
    except ValueError as error:
        raise DataError(f"{url}: is no address ({error})") from error
    copy, note = place / name, place / "validators.json"
    waits = list(_WAITS)
    while True:
        try:
            return _fetched(url, copy, note)
        except _NoAnswer as error:
            if error.may_pass and waits:
                time.sleep(waits.pop(0))
                continue
            if (
                copy.is_file() and not error.may_pass
            ):  # nobody answered; else the server has another file, or cannot tell
                return copy
            raise DataError(f"{url}: {error}") from error
        except OSError as error:
            raise DataError(
                f"data.cache: cannot write to {place} ({error.strerror}); make room, or set data.cache to another"
                " folder"
            ) from error


class _NoAnswer(Exception):
    """The file did not arrive. `may_pass`: the server was there, so that another attempt may succeed."""

    def __init__(self, message: str, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


def _fetched(url: str, copy: Path, note: Path) -> Path:
    """The copy, written or found to be still good. Raises OSError where it cannot be written."""
    with _opened(url, copy, note) as answer:
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=copy.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                for block in _blocks(answer, copy.name):
                    file.write(block)
            flush(Path(partial))
            Path(partial).replace(copy)
        finally:
            Path(partial).unlink(missing_ok=True)
        validators = {
            "If-None-Match": answer.headers.get("ETag"),
            "If-Modified-Since": answer.headers.get("Last-Modified"),
        }
        write_whole(note, json.dumps({key: value for key, value in validators.items() if value}).encode())
        return copy


def _opened(url: str, copy: Path, note: Path) -> Any:
    """The server's answer: the file, or 304 where the copy is still good."""
    try:
        # Addresses are pasted from a browser, which shows spaces and letters beyond ASCII as they are.
        request = urllib.request.Request(urllib.parse.quote(url, safe=_IN_ADDRESSES), headers={"User-Agent": "chumoku"})
        if copy.is_file():
            for header, value in _validators(note).items():
                request.add_header(header, value)
        return urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_MODIFIED:
            return error
        if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _NoAnswer(f"the server answers {error.code} {error.reason}", may_pass=True) from error
        raise DataError(f"{url}: the server answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _NoAnswer(f"cannot be reached ({getattr(error, 'reason', error)})", may_pass=False) from error


def _validators(note: Path) -> dict[str, str]:
    """Headers that ask whether the copy is still good; none where they are not known: the file is fetched
    again then."""
    try:
        return dict(json.loads(note.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return {}


def _blocks(answer: Any, name: str) -> Iterator[bytes]:
    """The file, a block at a time, to its last byte."""
    length = answer.headers.get("Content-Length")
    expected = int(length) if length and length.isdecimal() else None
    received = 0
    bar = tqdm(total=expected, desc=name, unit="B", unit_scale=True, disable=None, delay=2, leave=False)
    with bar:
        while True:
            try:
                block = answer.read(_BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise _broken_off(received, expected) from error
            if not block:
                break
            received += len(block)
            bar.update(len(block))
            yield block
    if expected is not None and received != expected:
        raise _broken_off(received, expected)


def _broken_off(received: int, expected: int | None) -> _NoAnswer:
    of = f" of {expected:,}" if expected else ""
    return _NoAnswer(f"the connection broke off after {received:,}{of} bytes; start again later", may_pass=True)
