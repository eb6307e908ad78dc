"""Append to the files of a run such that a full disk neither ends training nor loses lines."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from configs.atomic_file import flush
from training.checkpoints.moved_folder import Place
from training.run_folder.terminal import print_line


class GrowingFile:
    """Appends bytes immediately and completely. Data that cannot be written is buffered, reported once, and retried."""

    def __init__(self, path: Path, place: Place, *, durable: bool = False) -> None:
        """place: the run folder, without which nothing is written. durable: flush every write to disk; slow, for small
        amounts of data."""
        self.path, self.place, self.durable = path, place, durable
        self.waiting = b""

    def write(self, data: bytes) -> None:
        """Append `data` after any buffered data."""
        warned, self.waiting = bool(self.waiting), self.waiting + data
        try:
            self.place.check()
            append_whole(self.path, self.waiting, durable=self.durable)
            self.waiting = b""
        except OSError as error:
            if not warned:
                failure = f"{self.path} cannot be written ({error.strerror})"
                print_line(f"warning: {failure}: training continues, the write is retried")

    def close(self) -> None:
        """Make a final attempt to write and report lost data."""
        if self.waiting:
            self.write(b"")
        if self.waiting:
            print_line(f"warning: {self.path} lacks its last {len(self.waiting)} bytes, which could not be written")


def append_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Append all of `data` or nothing: a partial line or record would corrupt the following ones."""
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
