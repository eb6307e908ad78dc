"""A temporary folder that does not outlive its process: the next process deletes what a killed one left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "attention-questions-"


class TemporaryFolder:
    """A new folder. A lock, which ends with the process, however it ends, tells others that it is in use."""

    def __init__(self) -> None:
        """Delete the folders that killed processes have left, and create one."""
        remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = _lock(self.path)

    def create_again(self) -> None:
        """Create the folder again if a cleaner of temporary files has removed it."""
        if not self.path.exists():
            self._unlock()
            self.path.mkdir(mode=0o700, exist_ok=True)
            self._lock = _lock(self.path)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_abandoned(parent: Path) -> None:
    """Delete the folders of processes that have ended. Those of other users stay."""
    for folder in parent.glob(f"{PREFIX}*"):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Return a descriptor that locks a folder, or None if another process has it, or this system has no such locks."""
    try:
        import fcntl  # not on Windows; TensorBoard imports this module there, too
    except ImportError:
        return None
    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    if descriptor is not None:
        os.close(descriptor)
    return None
