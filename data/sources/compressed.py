"""Read compressed files as streams, and unpack archives into the cache. Both are limited: a small file may hold more
than the disk."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from data.errors import DataError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zstd")
"""Names of compressed files. What a file is, its first bytes tell."""

_STARTS = {"gzip": rb"\x1f\x8b", "bzip2": rb"BZh[1-9](1AY&|\x17rE8)", "xz": rb"\xfd7zXZ\0"}
_STARTS |= {"zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"}
_ZIP = b"PK\x03\x04", b"PK\x05\x06"  # the second: an empty one
_TAR = re.compile(r"\.(tar(\.(gz|bz2|xz|zst|zstd))?|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)
_ALWAYS, _RATIO = 1 << 30, 100
"""A file that grows to more bytes than the first, and more than the second times its size, is not unpacked."""
_MOST_FILES = 100_000
_LONGEST_NAME = 255  # bytes
_BUFFER = 1 << 18
_DAMAGED: tuple[type[Exception], ...] = (EOFError, OSError, ValueError, MemoryError, struct.error, zlib.error)
_DAMAGED += (lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)
"""What the libraries raise for files that are damaged or incomplete."""


def plain_name(path: Path) -> Path:
    """Return the name of a file without the ending of its compression: `a.txt` for `a.txt.gz`."""
    return Path(path.stem) if path.suffix.lower() in SUFFIXES else Path(path.name)


def compression(start: bytes) -> str | None:
    """Return how a file is compressed that begins with these bytes, None if it is not."""
    return next((kind for kind, pattern in _STARTS.items() if re.match(pattern, start, re.DOTALL)), None)


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file; a compressed one gives its content. Reading raises DataError if that is damaged or too large."""
    with path.open("rb") as file:
        kind = compression(file.read(8))
    if kind is None:
        return path.open("rb")
    return io.BufferedReader(_Content(path, kind), _BUFFER)


class _Content(io.RawIOBase):
    """The content of a compressed file."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind, self._stream = path, kind, _decompressor(path, kind)
        self._limit = max(_ALWAYS, _RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except _DAMAGED as error:
            raise _damaged(self._path, f"{self._kind} file", error) from error
        self._limit -= len(data)
        if self._limit < 0:
            raise _too_large(self._path)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _decompressor(path: Path, kind: str) -> Any:
    import bz2
    import gzip

    if kind == "zstd":
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.OSFile(str(path), "rb"), "zstd")
    opened: dict[str, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
    return opened[kind](path, "rb")


def is_archive(path: Path) -> bool:
    """Whether a file is a `.zip` or a `.tar`, which may be compressed; False if it cannot be read."""
    if _TAR.search(path.name):
        return True
    try:
        with open_bytes(path) as stream:
            start = stream.read(262)
            return start[:4] in _ZIP or start[257:] == b"ustar"
    except OSError:  # whoever reads the file reports it
        return False


def unpack(path: Path, folder: Path) -> None:
    """Write the files of an archive into an empty folder, under their names. Links, hidden files and names that lead
    out of the folder are not followed. Raises DataError if the archive is damaged, encrypted or too large."""
    limit = max(_ALWAYS, _RATIO * path.stat().st_size)
    try:
        for count, (name, stream) in enumerate(_members(path), start=1):
            parts = [
                _possible(re.sub(r"[\0-\x1f]", "_", part)) for part in PurePosixPath(name.replace("\\", "/")).parts
            ]
            parts = [part for part in parts if part not in ("/", "..")]
            if not parts or any(part.startswith((".", "__MACOSX")) for part in parts):
                continue
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while block := stream.read(_BUFFER):
                    limit -= file.write(block)
                    if limit < 0:
                        raise _too_large(path)
            if count > _MOST_FILES:
                raise DataError(f"{path}: has more than {_MOST_FILES:,} files; unpack it and give the folder")
    except (NotImplementedError, RuntimeError) as error:  # a password; an unknown method
        raise DataError(f"{path}: cannot be unpacked ({error}); unpack it and give the folder") from error
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno:  # of the system, not of a library
            raise DataError(f"{path}: cannot be unpacked into {folder.parent} ({error.strerror})") from error
        raise _damaged(path, "archive", error) from error


def _possible(name: str) -> str:
    """Return a name that a file can have: a long one without its middle, with a hash that keeps it apart."""
    if len(os.fsencode(name)) <= _LONGEST_NAME:
        return name
    return f"{name[:30]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}-{name[-30:]}"


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the name and the content of each file."""
    with path.open("rb") as file:
        is_zip = file.read(4) in _ZIP
    if not is_zip:
        with open_bytes(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.isfile() and (content := archive.extractfile(member)):
                    yield member.name, content
    else:
        with zipfile.ZipFile(path) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir() and (entry.external_attr >> 28) != 0xA:  # a symbolic link
                    with zipped.open(entry) as content:
                        yield entry.filename, content


def _too_large(path: Path) -> DataError:
    return DataError(
        f"{path}: unpacks to more than {_ALWAYS >> 30} GiB and more than {_RATIO} times its size; if it is what you"
        " think it is, unpack it yourself and give the file or folder"
    )


def _damaged(path: Path, what: str, error: BaseException) -> DataError:
    reason = str(error) or type(error).__name__
    return DataError(f"{path}: the {what} is damaged or incomplete ({reason}); download or copy it again")
