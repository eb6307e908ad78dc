"""Write TensorBoard event files.

torch's `SummaryWriter` is not used: on a full disk its background thread dies with a traceback and leaves a truncated
record, after which TensorBoard ignores the rest of the file.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from training.checkpoints.moved_folder import Place
from training.run_folder.append_file import GrowingFile
from training.run_folder.earlier_curves import EarlierPoints, content_hash


class EventFile:
    """A new event file in a folder, which is one run in TensorBoard and may contain event files of earlier starts.

    No point is in the folder twice: points of the earlier files after the resumed step are deleted, and a point that is
    written again (by a repeated evaluation or test, or the start of a run) replaces the old one.
    """

    def __init__(self, folder: Path, step: int, place: Place) -> None:
        """step: the last completed step. place: the run folder."""
        self.earlier = EarlierPoints(folder, step)
        with suppress(OSError):  # GrowingFile reports the error
            folder.mkdir(exist_ok=True)
        # TensorBoard reads a folder's files by name and never goes back, so a clock that was set back is not trusted.
        started = max([time.time(), *(start_time(path) + 1 for path in self.earlier.files)])
        name = f"events.out.tfevents.{started:017.6f}.{socket.gethostname()}.{os.getpid()}"
        self.file = GrowingFile(folder / name, place)
        self.records = RecordWriter(self.file)
        self.add(Event(file_version="brain.Event:2"))
        if self.earlier.files:  # for a TensorBoard that has already read later points
            self.add(Event(step=step + 1, session_log=SessionLog(status=SessionLog.START)))

    def add_summary(self, summary: Summary, step: int) -> None:
        """Append scalars, text or images of a step, except those that are in an earlier file already."""
        values = [value for value in summary.value if self.earlier.hashes.get((value.tag, step)) != content_hash(value)]
        self.earlier.delete({(value.tag, step) for value in values})
        if values:
            self.add(Event(summary=Summary(value=values), step=step))

    def add(self, event: Event) -> None:
        """Append an event with the current time."""
        event.wall_time = time.time()
        self.records.write(event.SerializeToString())

    def close(self) -> None:
        """Make a final attempt to write pending data."""
        self.file.close()


def start_time(path: Path) -> float:
    """Return the time in the name of an event file, seconds since 1970; 0 if it has none."""
    match = re.match(r"events\.out\.tfevents\.(\d{1,12}(?:\.\d{6}(?=\.))?)", path.name)
    return float(match[1]) if match else 0.0
