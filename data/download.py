"""Files from http(s) addresses, kept in the cache and fetched again only when they changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tqdm import tqdm

from data.errors import DataError

_TIMEOUT = 30  # seconds without an answer


def is_url(path: str) -> bool:
    """True for http and https addresses."""
    return path.startswith(("http://", "https://"))


def download(url: str, folder: Path) -> Path:
    """Path of a local copy, named as in the address. Asks the server whether the copy is still good; without an answer
    it is used.

    (The hub library's own downloader needs aiohttp for plain addresses, which it does not install.)
    Raises DataError when there is neither an answer nor a copy.
    """
    place = folder / hashlib.sha256(url.encode()).hexdigest()[:24]
    name = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name or "download"
    copy, note = place / name, place / "validators.json"
    request = urllib.request.Request(url, headers={"User-Agent": "chumoku"})
    if copy.is_file() and note.is_file():
        for header, value in json.loads(note.read_text("utf-8")).items():
            request.add_header(header, value)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            length = answer.headers.get("Content-Length")
            place.mkdir(parents=True, exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=place)
            try:
                with (
                    os.fdopen(handle, "wb") as file,
                    tqdm.wrapattr(
                        answer, "read", total=int(length) if length else None, desc=name, disable=None, delay=2
                    ) as body,
                ):
                    shutil.copyfileobj(body, file)
                if length and Path(partial).stat().st_size != int(length):
                    raise DataError(f"{url}: the connection broke off; start again")
                Path(partial).replace(copy)
            finally:
                Path(partial).unlink(missing_ok=True)
            validators = {
                "If-None-Match": answer.headers.get("ETag"),
                "If-Modified-Since": answer.headers.get("Last-Modified"),
            }
            note.write_text(json.dumps({key: value for key, value in validators.items() if value}), "utf-8")
            return copy
    except urllib.error.HTTPError as error:
        if error.code == 304:
            return copy
        raise DataError(f"{url}: the server answers {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        if copy.is_file():
            return copy
        raise DataError(f"{url}: cannot be reached ({getattr(error, 'reason', error)})") from error
