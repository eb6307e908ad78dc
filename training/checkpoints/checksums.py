"""Sizes and CRC-32 checksums of files, to find damage that their formats do not show.

CRC-32 finds every burst of up to 32 changed bits, and all but one in 4 billion cases of other damage. zlib computes it
at several GB/s (docs/log.md), so it costs little beside reading and writing.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Checksum:
    """Size in bytes and CRC-32 of a file's content."""

    size: int
    crc32: int

    @classmethod
    def of(cls, path: Path) -> Checksum:
        """Read a file. Raises OSError if it is unreadable."""
        buffer, crc32, size = memoryview(bytearray(_CHUNK)), 0, 0
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                crc32, size = zlib.crc32(buffer[:count], crc32), size + count
        return cls(size, crc32)

    def difference(self, path: Path) -> str | None:
        """Return how the file differs, or None if its content has this checksum. Raises OSError if it is unreadable."""
        actual = Checksum.of(path)
        if actual.size != self.size:
            return f"it has {actual.size:,} bytes, but {self.size:,} were written"
        return None if actual == self else "its content is not what was written: the checksum differs"

    def to_json(self) -> dict:
        """Return the content of the entry in state.json."""
        return {"bytes": self.size, "crc32": f"{self.crc32:08x}"}

    @classmethod
    def from_json(cls, entry: dict) -> Checksum:
        """Read the output of `to_json`."""
        return cls(int(entry["bytes"]), int(entry["crc32"], 16))


class ChecksumWriter:
    """Writes to a binary file and computes the checksum of what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.crc32 = file, 0, 0

    def write(self, data: bytes | memoryview) -> int:
        """Write all of `data`."""
        self.crc32 = zlib.crc32(data, self.crc32)
        written = self.file.write(data)
        self.size += written
        return written

    def flush(self) -> None:
        """Pass the buffer to the system."""
        self.file.flush()

    @property
    def checksum(self) -> Checksum:
        """The checksum of everything written so far."""
        return Checksum(self.size, self.crc32)
