"""Find the runs of a log directory that have recordings, with the names used by TensorBoard's other tabs."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attention_maps.files.errors import NotThere
from attention_maps.files.file_names import FOLDER, RECORDING, numbered

DEEPEST = 10  # folder levels below the log directory
MOST_FOLDERS = 20_000  # a home folder as the log directory must not block TensorBoard
REMEMBERED = 2.0  # seconds; TensorBoard lists the runs at every page load

logger = logging.getLogger("tensorboard")


class Run(NamedTuple):
    """Recordings of one run: their folder, paths by step, and paths of generated texts by number."""

    folder: str
    steps: dict[int, str]
    generated: dict[int, str]
    changed: float = 0.0
    """Time of the newest recording in seconds; 0 if unknown."""

    def path(self, recording: str) -> str:
        """Return the path of a recording with an id such as `step_00001000`. Raises NotThere."""
        match = RECORDING.fullmatch(f"{recording}.safetensors")
        if match is None:
            raise NotThere(f"'{recording}' is not a recording name such as step_00001000 or generated_00001")
        files, number = (self.steps, match["step"]) if match["step"] else (self.generated, match["generated"])
        if int(number) not in files:
            raise NotThere(f"there is no recording '{recording}' in this run (any more)")
        return files[int(number)]


class Runs:
    """Finds the runs below some folders. Thread-safe; results are cached for a short time."""

    def __init__(self, roots: Sequence[tuple[str, str]]) -> None:
        """`roots`: (prefix of the run names, folder) pairs, usually a single one with the prefix ""."""
        self._roots = roots
        self._lock = threading.Lock()
        self._found: dict[str, Run] = {}
        self._until = float("-inf")

    def find(self) -> dict[str, Run]:
        """Return the runs with at least one recording, sorted by name. The name of a run is its path below the log
        directory, or "." for the log directory itself. During a search of another thread: the previous result."""
        if not self._lock.acquire(blocking=not self._found):
            return self._found
        try:
            started = time.monotonic()
            if started >= self._until:
                self._found = self._search()
                ended = time.monotonic()
                self._until = ended + max(REMEMBERED, 10 * (ended - started))  # a slow disk is read less often
            return self._found
        finally:
            self._lock.release()

    def run(self, name: str) -> Run:
        """Return the run of this name, with its current recordings. Only its own folder is read, so that the time does
        not grow with the number of runs; an unknown run is searched. Raises NotThere."""
        if known := self._found.get(name):
            with suppress(OSError):
                run = Run(known.folder, *numbered(read_folder(known.folder)[0].items()))
                if run.steps or run.generated:
                    return run
        runs = self.find()
        if name not in runs:
            raise NotThere(f"there is no run '{name}' with recorded attention")
        return runs[name]

    def path(self, name: str, recording: str) -> str:
        """Return the path of a recording of a run; nothing is read if it is known. Raises NotThere."""
        if known := self._found.get(name):
            with suppress(NotThere):
                return known.path(recording)
        return self.run(name).path(recording)

    def _search(self) -> dict[str, Run]:
        runs: dict[str, Run] = {}
        for group, root in self._roots:
            for parts, folder, files in walked(root):
                if files and (parts[-1:] or (Path(root).name,)) == (FOLDER,):
                    name = as_text("/".join([group, *parts[:-1]] if group else parts[:-1]) or ".")
                    steps, generated = numbered(files.items())
                    runs.setdefault(name, Run(folder, steps, generated, _changed(steps, generated)))
        return dict(sorted(runs.items()))


def newest(runs: Mapping[str, Run]) -> str:
    """Return the name of the run that recorded last, by the time of its newest file; "" if there are no runs. Among
    runs of the same time, the first one."""
    return max(runs, key=lambda name: runs[name].changed, default="")


def roots(logdir: str | None, logdir_spec: str | None) -> list[tuple[str, str]]:
    """Parse `--logdir`, or `--logdir_spec` such as `name:folder,other name:other folder,folder`, into (prefix, folder)
    pairs. If two folders contain a run of the same name, the first one is used."""
    if logdir:
        return [("", os.path.expanduser(logdir))]  # noqa: PTH111 (Path's raises for a user who does not exist)
    folders = []
    for part in filter(None, (logdir_spec or "").split(",")):
        group, colon, folder = part.partition(":")
        if not colon or part.startswith("/") or "://" in part or os.path.splitdrive(part)[0]:
            group, folder = "", part
        folders.append((group, os.path.expanduser(folder)))  # noqa: PTH111
    return folders


def walked(root: str) -> Iterator[tuple[tuple[str, ...], str, dict[str, str]]]:
    """Walk the folders breadth-first; yield for each readable folder its path below the root, the folder itself and the
    paths of its recordings by file name.

    Symbolic links are followed unless they lead to a parent folder.
    """
    waiting: deque[tuple[tuple[str, ...], str, frozenset[tuple[int, int]]]] = deque([((), root, frozenset())])
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        parts, folder, above = waiting.popleft()
        try:
            status = Path(folder).stat()
            if (status.st_dev, status.st_ino) in above:
                continue
            files, inner = read_folder(folder)
        except OSError:
            continue
        yield parts, folder, files
        if len(parts) < DEEPEST:
            within = above | {(status.st_dev, status.st_ino)}
            waiting.extend(((*parts, name), path, within) for name, path in sorted(inner))
    logger.warning("%s: more than %d folders; deeper ones were not searched for attention maps", root, MOST_FOLDERS)


def read_folder(folder: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the recordings of a folder, path by file name, and its inner folders, as (name, path). No file is opened.
    A link in place of a recording is skipped: it may lead to any file. Raises OSError."""
    files, inner = {}, []
    with os.scandir(folder) as entries:
        for entry in entries:
            if RECORDING.fullmatch(entry.name):
                if entry.is_file(follow_symlinks=False):
                    files[entry.name] = entry.path
            elif _leads_to(entry.is_dir):
                inner.append((entry.name, entry.path))
    return files, inner


def _changed(steps: dict[int, str], generated: dict[int, str]) -> float:
    """Return the time of the last step or the last generated text, whichever is newer."""
    times = [0.0]
    for files in filter(None, (steps, generated)):
        with suppress(OSError):
            times.append(Path(files[max(files)]).stat().st_mtime)
    return max(times)


def _leads_to(is_such: Callable[[], bool]) -> bool:
    """Whether a folder entry has this type; False for a link to itself or into an unreadable folder."""
    try:
        return is_such()
    except OSError:
        return False


def as_text(name: str) -> str:
    """Decode a file name, which may not be UTF-8, to text that can be sent to a browser."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
