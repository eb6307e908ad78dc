"""The runs of a log folder that have recordings, under the names that TensorBoard's other tabs use."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attention_maps.files.errors import NotThere
from attention_maps.files.file_names import FOLDER, RECORDING

DEEPEST = 10  # folders below the log folder
MOST_FOLDERS = 20_000  # somebody's home as the log folder must not hold up every tab
REMEMBERED = 2.0  # seconds: TensorBoard asks at every page load

logger = logging.getLogger("tensorboard")


@dataclass
class Run:
    """The recordings of one run: paths by step, and by number in order of creation."""

    steps: dict[int, str] = field(default_factory=dict)
    generated: dict[int, str] = field(default_factory=dict)

    def path(self, recording: str) -> str:
        """The file of a recording id such as `step_00001000`. Raises NotThere."""
        match = RECORDING.fullmatch(f"{recording}.safetensors")
        if match is None:
            raise NotThere(f"'{recording}' names no recording; the names are like step_00001000 and generated_00001")
        files, number = (self.steps, match["step"]) if match["step"] else (self.generated, match["generated"])
        if int(number) not in files:
            raise NotThere(f"there is no recording '{recording}' in this run, or not any more")
        return files[int(number)]


class Runs:
    """Finds the runs below some folders. Thread-safe; what was found is remembered for a moment."""

    def __init__(self, roots: Sequence[tuple[str, str]]) -> None:
        """`roots`: folders with what goes before the names of their runs, usually a single one with ""."""
        self._roots = roots
        self._lock = threading.Lock()
        self._found: dict[str, Run] = {}
        self._until = float("-inf")

    def find(self) -> dict[str, Run]:
        """Runs with at least one recording, sorted by name: the path below the log folder, "." for the folder
        itself."""
        with self._lock:
            started = time.monotonic()
            if started >= self._until:
                self._found = self._search()
                ended = time.monotonic()
                self._until = ended + max(REMEMBERED, 10 * (ended - started))  # a slow disk is asked less often
            return self._found

    def run(self, name: str) -> Run:
        """One run by its name. Raises NotThere."""
        found = self.find()
        if name not in found:
            raise NotThere(f"there is no run '{name}' with recorded attention")
        return found[name]

    def _search(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for group, root in self._roots:
            for parts, files in _folders(root):
                if files and (parts[-1:] or (Path(root).name,)) == (FOLDER,):
                    found.setdefault(_name(group, parts[:-1]), _run(files))
        return dict(sorted(found.items()))


def roots(logdir: str | None, logdir_spec: str | None) -> list[tuple[str, str]]:
    """The folders to search with what goes before the names of their runs.

    As `--logdir` or `--logdir_spec` give them, the latter like `name:folder,other name:other folder,folder`. Where two
    folders have a run of the same name, the first counts.
    """
    if logdir:
        return [("", os.path.expanduser(logdir))]  # noqa: PTH111 (Path's raises for a user who does not exist)
    folders = []
    for part in filter(None, (logdir_spec or "").split(",")):
        group, colon, folder = part.partition(":")
        if not colon or part.startswith("/") or "://" in part or os.path.splitdrive(part)[0]:
            group, folder = "", part
        folders.append((group, os.path.expanduser(folder)))  # noqa: PTH111
    return folders


def _folders(root: str) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Every folder, upper ones first: its path below the root and the recordings in it, paths by file name.

    Links are followed, but not to a folder that they lie in. Folders that cannot be read count as empty.
    """
    waiting: deque[tuple[tuple[str, ...], str, frozenset[tuple[int, int]]]] = deque([((), root, frozenset())])
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        parts, folder, above = waiting.popleft()
        files, inner = {}, []
        try:
            status = Path(folder).stat()
            if (status.st_dev, status.st_ino) in above:
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if RECORDING.fullmatch(entry.name):
                        if _leads_to(entry.is_file):
                            files[entry.name] = entry.path
                    elif _leads_to(entry.is_dir):
                        inner.append((entry.name, entry.path))
        except OSError:
            continue
        yield parts, files
        if len(parts) < DEEPEST:
            within = above | {(status.st_dev, status.st_ino)}
            waiting.extend(((*parts, name), path, within) for name, path in sorted(inner))
    logger.warning(
        "Attention tab: %s holds more than %d folders; only the upper ones were searched", root, MOST_FOLDERS
    )


def _leads_to(is_such: Callable[[], bool]) -> bool:
    """Whether a folder's entry is of this type; a link to itself, or into a private folder, is not."""
    try:
        return is_such()
    except OSError:
        return False


def _run(files: dict[str, str]) -> Run:
    run = Run()
    for name in sorted(files, key=lambda name: (len(name), name)):
        match = RECORDING.fullmatch(name)
        if match and match["step"]:
            run.steps[int(match["step"])] = files[name]
        elif match:
            run.generated[int(match["generated"])] = files[name]
    return run


def _name(group: str, parts: Sequence[str]) -> str:
    return as_text("/".join([group, *parts] if group else parts) or ".")


def as_text(name: str) -> str:
    """A name of a file that may be no UTF-8 as text; no other reaches a browser."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
