"""The points that earlier starts of a run have written to its TensorBoard event files."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from configs.atomic_file import write_whole
from training.run_folder.terminal import print_line

Point = tuple[str, int]
"""Tag and step."""


class EarlierPoints:
    """The event files in a folder at the start of a process, without points after a step."""

    def __init__(self, folder: Path, step: int) -> None:
        """Delete points after `step` and records truncated by a kill."""
        self.files = sorted(folder.glob("events.out.tfevents.*"))
        self.hashes: dict[Point, int] = {}
        """Hash of the content of each point."""
        for path in self.files:
            self._rewrite(path, lambda point: point[1] <= step)

    def delete(self, points: set[Point]) -> None:
        """Delete points, if they are there: they are about to be written again with another content."""
        doomed = points & self.hashes.keys()
        if doomed:
            self.hashes = {}
            for path in self.files:
                self._rewrite(path, lambda point: point not in doomed)

    def _rewrite(self, path: Path, keeps: Callable[[Point], bool]) -> None:
        """Delete the points of a file for which `keeps` is false, if any, and note the others."""
        try:
            content = path.read_bytes()
            records: list[bytes] = []
            for record, event in read_records(content):
                values = [value for value in event.summary.value if keeps((value.tag, event.step))]
                self.hashes |= {(value.tag, event.step): content_hash(value) for value in values}
                if len(values) == len(event.summary.value):
                    records.append(record)
                elif values:
                    event.summary.CopyFrom(Summary(value=values))
                    records.append(as_record(event.SerializeToString()))
            if not records:  # not an event file
                return
            whole = b"".join(records)
            if content.startswith(whole):  # only the end is dropped: this needs no space on a full disk
                if whole != content:
                    os.truncate(path, len(whole))
            else:
                write_whole(path, whole)
        except OSError as error:
            print_line(f"warning: {path} cannot be rewritten ({error.strerror}): TensorBoard may show points twice")


def read_records(content: bytes) -> Iterator[tuple[bytes, Event]]:
    """Yield each record of an event file and the event that it contains, up to the first damaged record, after which
    TensorBoard reads nothing either.

    A record is the length of its data (8 bytes), a checksum of the length (4), the data, and a checksum of the data (4;
    not verified, since computing it in Python takes a second per megabyte).
    """
    start = 0
    while start + 12 <= len(content):
        (length,) = struct.unpack("<Q", content[start : start + 8])
        end = start + 12 + length + 4
        if content[start + 8 : start + 12] != crc(content[start : start + 8]) or end > len(content):
            return
        try:
            event = Event.FromString(content[start + 12 : end - 4])
        except DecodeError:
            return
        yield content[start:end], event
        start = end


def as_record(data: bytes) -> bytes:
    """Return the record of serialised data."""
    length = struct.pack("<Q", len(data))
    return length + crc(length) + data + crc(data)


def crc(data: bytes) -> bytes:
    """Return the masked checksum of the record format."""
    return struct.pack("<I", masked_crc32c(data))


def content_hash(value: Summary.Value) -> int:
    """Return a hash of a point's content, equal in this process for equal contents."""
    return hash(value.SerializeToString(deterministic=True))
