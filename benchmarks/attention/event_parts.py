"""Event files of a run without a part of their contents."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

EVENT_FILES = "events.out.tfevents.*"

PARTS: dict[str, Callable[[Summary.Value], bool]] = {
    "complete": lambda value: False,
    "without pictures": lambda value: value.HasField("image"),
    "without texts": lambda value: value.metadata.plugin_data.plugin_name == "text",
    "without curves of attention": lambda value: value.tag.startswith("val_attention/"),
}
"""What is left out of an event file, by description."""


def copies(part: str, run: Path, folder: Path, count: int) -> int:
    """Copy the event files of a run, without a part of PARTS, into `count` runs in a folder -> their total size in
    bytes."""
    first = folder / "run-000"
    for file in run.rglob(EVENT_FILES):
        target = first / file.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as stream:
            writer = RecordWriter(stream)
            for event in events(file):
                kept = [value for value in event.summary.value if not PARTS[part](value)]
                if kept or not event.HasField("summary"):
                    if event.HasField("summary"):
                        event.summary.CopyFrom(Summary(value=kept))
                    writer.write(event.SerializeToString())
    for number in range(1, count):
        shutil.copytree(first, folder / f"run-{number:03d}")
    return sum(file.stat().st_size for file in folder.rglob(EVENT_FILES))


def last_step(run: Path, tag: str) -> int:
    """Return the last step of a tag in the event files of a run folder, without those in its subfolders."""
    return max(
        event.step
        for file in run.glob(EVENT_FILES)
        for event in events(file)
        for v in event.summary.value
        if v.tag == tag
    )


def events(file: Path) -> Iterator[Event]:
    """Read an event file: records of a length (8 bytes), its checksum (4), an Event and its checksum (4)."""
    content, place = file.read_bytes(), 0
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        yield Event.FromString(content[place + 12 : place + 12 + length])
        place += 16 + length
