"""Files of a run that grow while it trains: a full disk does not end the training, and loses none of their lines."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from configs.whole_file import flush
from training.run_folder.terminal import say


class GrowingFile:
    """Bytes are appended at once and whole. What cannot be written is kept in memory, told once, and written when it
    can be."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        """durable: what was written is on the disk, whatever happens then; slow, for few lines."""
        self.path, self.durable = path, durable
        self.waiting = b""

    def write(self, data: bytes) -> None:
        """Append `data`, after what could not be written before."""
        told, self.waiting = bool(self.waiting), self.waiting + data
        try:
            append_whole(self.path, self.waiting, durable=self.durable)
            self.waiting = b""
        except OSError as error:
            if not told:
                say(
                    f"warning: {self.path} cannot be written ({error.strerror}): training goes on, the write is retried"
                )

    def close(self) -> None:
        """Try a last time, and say what is lost."""
        if self.waiting:
            self.write(b"")
        if self.waiting:
            say(f"warning: {self.path} lacks its last {len(self.waiting)} bytes, which could not be written")


def append_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Append all of `data`, or nothing: half a line or half a record would spoil those that follow."""
    with path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[file.write(data) :]
            if durable:
                flush(path)
            if durable and not size:
                flush(path.parent)
        except OSError:
            with suppress(OSError):
                file.truncate(size)
            raise
