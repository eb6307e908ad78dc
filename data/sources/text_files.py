"""Check once that a text file is text in a known encoding, and read its lines."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from configs.atomic_file import write_whole
from data.errors import DataError
from data.sources.compressed import open_bytes, plain_name
from data.sources.encodings import SAMPLE, advice, likely, marked, seven_bit

SEPARATOR = re.compile(r"(<\|endoftext\|>|<\|end_of_text\|>)")
"""What GPT-2, Llama 3 and corpora such as TinyStories write between documents."""

_BLOCK = 1 << 22  # bytes read at a time
_RARE = 10  # characters beyond ASCII for each invalid byte in a text that is UTF-8, but damaged
_REMEMBER = 1 << 26  # bytes; scans of files at least this large are stored, keyed by path, size and time


@dataclass(frozen=True)
class TextFile:
    """A non-empty file of text without NUL. Lines end with \\n or \\r\\n; a leading BOM is not part of the text."""

    path: str
    sha256: str
    """Hash of its bytes, decompressed."""
    characters: int
    """Number of characters of the text as `lines` yields it."""

    lines: int
    """Number of lines, including the last, whether or not it ends with a newline."""

    encoding: str = "utf-8"

    separators: int = 0
    """Number of separators of documents."""


def scan(path: Path, memory: Path, text: bool = True, encoding: str | None = None) -> TextFile:
    """Read a file once for its hash, characters and lines. `memory`: folder for the scans of large files. `encoding`:
    that of a file that is not UTF-8 and has no byte order mark.

    A file that is not `text` (parquet) is only hashed. Raises DataError if the file is missing, empty, or not text in
    this encoding (with line and byte).
    """
    try:
        status = path.stat()
        if path.is_dir():
            raise DataError(f"{path}: is a folder, not a file")
        if status.st_size < _REMEMBER:
            return _scan(path, encoding) if text else _hashed(path)
        name = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}|{encoding}"
        note = memory / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"
        with suppress(FileNotFoundError, ValueError, TypeError):  # not scanned yet, or damaged by a power cut
            return replace(TextFile(**json.loads(note.read_text("utf-8"))), path=str(path))
        result = _scan(path, encoding) if text else _hashed(path)
        memory.mkdir(parents=True, exist_ok=True)
        write_whole(note, json.dumps(asdict(result)).encode(), durable=False)
        return result
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _hashed(path: Path) -> TextFile:
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    with path.open("rb") as file:
        return TextFile(str(path), hashlib.file_digest(file, "sha256").hexdigest(), 0, 0)


def _scan(path: Path, chosen: str | None) -> TextFile:
    digest = hashlib.sha256()
    characters = newlines = returns = separators = 0
    last = ""
    with open_bytes(path) as file:
        block = file.read(_BLOCK)
        digest.update(block)
        encoding, position = marked(block)
        if chosen and encoding in (None, "utf-8"):
            chosen, encoding = (None, encoding) if _is_utf8(path) else (chosen, None)
        encoding = encoding or codecs.lookup(chosen or "utf-8").name
        block = block[position:]
        decoder = codecs.getincrementaldecoder(encoding)()
        seen = b""
        while True:
            held = decoder.getstate()[0]
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeError as error:
                start = getattr(error, "start", 0)  # missing if UTF-16 has no byte order mark
                place = f"byte 0x{(held + block)[start : start + 1].hex()} at offset {position - len(held) + start}"
                raise _not_text(
                    path, block or seen, max(0, start - len(held)), newlines, place, chosen and encoding
                ) from error
            seen = block
            if "\0" in text or (chosen is None and seven_bit(block)):
                raise _no_text(path, block, newlines + text.partition("\0")[0].count("\n") + 1, chosen and encoding)
            position += len(block)
            returns += text.count("\r\n") + (last == "\r" and text.startswith("\n"))
            characters += len(text)
            newlines += text.count("\n")
            separators += len(SEPARATOR.findall(text)) if "<|end" in text else 0  # without those across blocks
            last = text[-1:] or last
            if not block:
                break
            block = file.read(_BLOCK)
            digest.update(block)
    if characters == newlines + returns:
        raise DataError(f"{path}: the file is empty")
    return TextFile(
        str(path), digest.hexdigest(), characters - returns, newlines + (last != "\n"), encoding, separators
    )


def _is_utf8(path: Path) -> bool:
    """Whether a file is valid UTF-8 and not just ASCII, which other encodings have too."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    ascii_only = True
    with suppress(UnicodeDecodeError), open_bytes(path) as file:
        while block := file.read(_BLOCK):
            decoder.decode(block)
            ascii_only = ascii_only and block.isascii()
        decoder.decode(b"", final=True)
        return not ascii_only
    return False


def _not_text(path: Path, block: bytes, start: int, newlines: int, place: str, chosen: str | None) -> DataError:
    """Return the error for bytes that are invalid in an encoding, the chosen one or else UTF-8, at `start` of a block
    after so many newlines."""
    with open_bytes(path) as file:
        has_mark = file.read(3) == codecs.BOM_UTF8
    sample = block if b"\0" in block[:SAMPLE] else block[block.rfind(b"\n", 0, start) + 1 :]
    where = f"{path}, line {newlines + block.count(10, 0, start) + 1}"
    text = block.decode(errors="replace")
    bad = text.count("\ufffd")
    if not chosen and sum(character > "\x7f" for character in text) > (1 + _RARE) * bad:
        command = f"iconv -c -f UTF-8 -t UTF-8 {shlex.quote(plain_name(path).name)} > {_renamed(path, 'fixed')}"
        return DataError(f"{where}: not UTF-8 ({place}), but the text around it is; to remove such bytes: {command}")
    way = advice(plain_name(path).name, sample[:SAMPLE], has_mark=has_mark)
    if chosen:
        return DataError(f"{where}: not {chosen} ({place}), as data.encoding says; {way}")
    return DataError(f"{where}: not UTF-8 ({place}); {way}")


def _no_text(path: Path, block: bytes, line: int, chosen: str | None) -> DataError:
    """Return the error for a block with NUL characters, or in an encoding of seven bits."""
    if not chosen and likely(block[:SAMPLE]):
        return DataError(f"{path}: not UTF-8; {advice(plain_name(path).name, block[:SAMPLE])}")
    return DataError(
        f"{path}, line {line}: has a NUL character, which no text has; if it is not a binary file, remove them: "
        f"tr -d '\\000' < {shlex.quote(plain_name(path).name)} > {_renamed(path, 'fixed')}"
    )


def _renamed(path: Path, word: str) -> str:
    name = plain_name(path)
    return shlex.quote(f"{name.stem}.{word}{name.suffix}") + " (of the unpacked file)" * (name.name != path.name)


def lines(file: TextFile) -> Iterator[str]:
    """Yield lines with their \\n. Nothing else (U+2028, form feed, lone \\r) ends a line: files stay aligned."""
    content = open_bytes(Path(file.path))
    if not file.encoding.startswith("utf") and content.peek(3).startswith(codecs.BOM_UTF8):
        content.read(3)  # which a program wrote before text in another encoding
    with io.TextIOWrapper(content, file.encoding, newline="\n") as stream:
        for number, line in enumerate(stream):
            text = line.removeprefix("\ufeff") if number == 0 and file.encoding.startswith("utf") else line
            yield text[:-2] + "\n" if text.endswith("\r\n") else text
