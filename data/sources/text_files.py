"""Check once that a text file is UTF-8, and read its lines."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from configs.whole_file import write_whole
from data.errors import DataError

_BLOCK = 1 << 22  # bytes read at a time
_REMEMBER = 1 << 26  # bytes; scans of files at least this large are stored, keyed by path, size and time

_ARCHIVES = {
    "gzip": b"\x1f\x8b",
    "zip": b"PK\x03\x04",
    "xz": b"\xfd7zXZ\0",
    "bzip2": b"BZh",
    "zstd": b"\x28\xb5\x2f\xfd",
}
"""The first bytes of archives. None is unpacked: a small one may hold more than the disk."""


@dataclass(frozen=True)
class TextFile:
    """A non-empty, valid UTF-8 file. Lines end with \\n or \\r\\n; a leading BOM is not part of the text."""

    path: str
    sha256: str
    characters: int
    """Number of characters of the text as `lines` yields it."""

    lines: int
    """Number of lines, including the last, whether or not it ends with a newline."""


def scan(path: Path, memory: Path, text: bool = True) -> TextFile:
    """Read a file once for its hash, characters and lines. `memory`: folder for the scans of large files.

    A file that is not `text` (parquet) is only hashed. Raises DataError if the file is missing, empty, or not UTF-8
    (with line and byte).
    """
    try:
        status = path.stat()
        if path.is_dir():
            raise DataError(f"{path}: is a folder, not a file")
        if status.st_size < _REMEMBER:
            return _scan(path) if text else _hashed(path)
        name = hashlib.sha256(f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}".encode()).hexdigest()[:24]
        note = memory / f"{name}.json"
        with suppress(FileNotFoundError, ValueError, TypeError):  # not scanned yet, or damaged by a power cut
            return replace(TextFile(**json.loads(note.read_text("utf-8"))), path=str(path))
        found = _scan(path) if text else _hashed(path)
        memory.mkdir(parents=True, exist_ok=True)
        write_whole(note, json.dumps(asdict(found)).encode(), durable=False)
        return found
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _hashed(path: Path) -> TextFile:
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    with path.open("rb") as file:
        return TextFile(str(path), hashlib.file_digest(file, "sha256").hexdigest(), 0, 0)


def _scan(path: Path) -> TextFile:
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    position = characters = newlines = returns = 0
    last = ""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            held = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, position - held + error.start) from error
            position += len(block)
            returns += text.count("\r\n") + (last == "\r" and text.startswith("\n"))
            characters += len(text)
            newlines += text.count("\n")
            last = text[-1:] or last
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, position - len(decoder.getstate()[0])) from error
    with path.open("rb") as file:
        characters -= file.read(3) == codecs.BOM_UTF8
    if characters == newlines + returns:
        raise DataError(f"{path}: the file is empty")
    return TextFile(str(path), digest.hexdigest(), characters - returns, newlines + (last != "\n"))


def _not_utf8(path: Path, offset: int) -> DataError:
    with path.open("rb") as file:
        before = file.read(offset)
        byte = file.read(1)
        file.seek(0)
        start = file.read(8)
    for archive, signature in _ARCHIVES.items():
        if start.startswith(signature):
            return DataError(f"{path}: is a {archive} archive, which is not read as data: unpack it first")
    encoding = "UTF-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "SHIFT_JIS"
    return DataError(
        f"{path}, line {before.count(10) + 1}: not UTF-8 (byte 0x{byte.hex()} at offset {offset}); "
        f"save the file as UTF-8, for example: iconv -f {encoding} -t UTF-8 {path.name} > fixed{path.suffix}"
    )


def lines(path: str | Path) -> Iterator[str]:
    """Yield lines with their \\n. Nothing else (U+2028, form feed, lone \\r) ends a line: files stay aligned."""
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file):
            line = raw.decode("utf-8-sig" if number == 0 else "utf-8")
            yield line[:-2] + "\n" if line.endswith("\r\n") else line
