"""TensorBoard's event file.

Written without torch's `SummaryWriter`, whose background thread ends with a traceback on a full disk and leaves half a
record: TensorBoard reads no further in that file.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from training.run_folder.growing_file import GrowingFile


class EventFile:
    """A new event file in a run's folder, which TensorBoard reads after those that are there."""

    def __init__(self, run: Path, purge_step: int | None) -> None:
        """purge_step: TensorBoard forgets points of the older files from this step on; None where there are none."""
        self.file = GrowingFile(run / f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}")
        self.records = RecordWriter(self.file)
        self.add(Event(file_version="brain.Event:2"))
        if purge_step is not None:
            self.add(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))

    def add_summary(self, summary: Summary, step: int) -> None:
        """Append points, a text or a picture of a step."""
        self.add(Event(summary=summary, step=step))

    def add(self, event: Event) -> None:
        """Append an event of now."""
        event.wall_time = time.time()
        self.records.write(event.SerializeToString())

    def close(self) -> None:
        """Try a last time to write what could not be written."""
        self.file.close()
