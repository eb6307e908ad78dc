"""Follow a run folder that somebody renames, moves or deletes while the run is trained."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path


class Place:
    """A run folder, held open, so that it is found again under another name."""

    def __init__(self, run: Path) -> None:
        self.run, self.descriptor = run, -1
        with suppress(OSError):  # a folder that cannot be listed: then it is not followed
            self.descriptor = os.open(run, os.O_RDONLY)

    def is_left(self) -> bool:
        """Whether `run` is no longer the name of the folder. Errors of a network share do not count."""
        if self.descriptor < 0:
            return False
        try:
            same = os.path.samestat(self.run.stat(), os.fstat(self.descriptor))
            return not same and os.path.realpath(self.now() or "") != os.path.realpath(self.run)  # or was it renumbered
        except OSError as error:
            return isinstance(error, FileNotFoundError | NotADirectoryError)

    def now(self) -> Path | None:
        """Return where the folder is; None if it is deleted, or if the system does not say."""
        try:
            if sys.platform == "darwin":
                import fcntl

                path = os.fsdecode(fcntl.fcntl(self.descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
            else:
                path = str(Path(f"/proc/self/fd/{self.descriptor}").readlink())
            if not os.path.samestat(Path(path).stat(), os.fstat(self.descriptor)):
                return None
        except OSError:
            return None
        inside = not self.run.is_absolute() and Path(path).is_relative_to(Path.cwd())
        return Path(path).relative_to(Path.cwd()) if inside else Path(path)

    def check(self) -> None:
        """Raise OSError if a file would be written into another folder, or one that is not there."""
        if self.is_left():
            raise FileNotFoundError(errno.ENOENT, "the run folder has been renamed or deleted", str(self.run))

    def close(self) -> None:
        """Let the folder go."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
