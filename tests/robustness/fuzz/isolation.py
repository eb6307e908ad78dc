"""Run one case in a child process, and judge how it ended and what it left behind."""

from __future__ import annotations

import faulthandler
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from configs.program import exit_code_of

SECONDS = 120
"""Time limit of a case. Most cases take milliseconds: even on a loaded machine only a hang exceeds it."""

MEMORY = 4 << 30
"""Address space in bytes that a case may add to that of the process it is forked from."""

FONTS = str(Path(tempfile.gettempdir()) / "fuzz-matplotlib")
"""Where matplotlib keeps its list of fonts, in all cases the same: it takes seconds to make."""

LONGEST_LINE = 3000
"""Characters of an error message that a person may be shown."""


@dataclass(frozen=True)
class Verdict:
    """How a case ended."""

    fault: str
    """`traceback`, `crash`, `hang`, `half-made` (files left after an error), `changed` (an input was changed),
    `message` (an error that is not one line) or "" if there is no fault."""
    code: int | None
    """Exit code of the command, None if it did not end by itself."""
    detail: str
    """What the command printed to standard error, or the files in question."""


def judge(
    prepare: Callable[[Path], None],
    act: Callable[[], object],
    folder: Path,
    may_change: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """Run `prepare` and `act` in a child process, in the empty folder `folder/work`, and judge the outcome.

    `act` is run as a command (`exit_code_of`). Only files below an entry of `may_change` may be changed or created,
    besides the cache of prepared data and locks; if the command fails, no files may be.
    """
    work = folder / "work"
    (work / "tmp").mkdir(parents=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _run(prepare, act, folder, seconds)
    status = _waited(child, seconds)
    said = (folder / "stderr").read_bytes().decode("utf-8", "backslashreplace")
    try:
        if status is None:
            return Verdict("hang", None, said)
        if os.WIFSIGNALED(status):
            return Verdict("crash", None, f"{signal.Signals(os.WTERMSIG(status)).name}\n{said}")
        if os.WEXITSTATUS(status):
            return Verdict("traceback", None, said)
        report = json.loads((folder / "report").read_text("utf-8"))
        return _judged(report, said, may_change)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _waited(child: int, seconds: float) -> int | None:
    """Return the status of the child, or None after killing it at the end of its time."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(pause)
        pause = min(0.01, pause * 1.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _run(prepare: Callable[[Path], None], act: Callable[[], object], folder: Path, seconds: float) -> None:
    """The child process; does not return."""
    code = 1
    try:
        work = folder / "work"
        for number, name, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, "stdout", os.O_WRONLY),
            (2, "stderr", os.O_WRONLY),
        ):
            opened = os.open(
                folder / name if number else name, flags | (os.O_CREAT | os.O_TRUNC if number else 0), 0o600
            )
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(os.fdopen(number, mode, closefd=False), encoding="utf-8", write_through=number == 2)
            for number, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
        )
        faulthandler.enable(sys.stderr)
        faulthandler.dump_traceback_later(0.9 * seconds, file=sys.stderr)
        os.chdir(work)
        os.environ |= {"HOME": str(work), "TMPDIR": str(work / "tmp"), "MPLCONFIGDIR": FONTS}
        tempfile.tempdir = None
        prepare(work)
        before = snapshot(work)
        limit = _address_space() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        ended = exit_code_of(act)
        after = snapshot(work)
        changed = sorted(name for name, content in before.items() if after.get(name) != content)
        added = sorted(after.keys() - before.keys())
        report = {"code": ended, "changed": changed, "added": added}
        (folder / "report").write_text(json.dumps(report), "utf-8")
        code = 0
    except SystemExit as left:  # as raised by Hydra
        if left.code in (0, 2, None):
            (folder / "report").write_text(json.dumps({"code": left.code or 0, "changed": [], "added": []}), "utf-8")
            code = 0
        else:
            print(f"SystemExit({left.code})", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _address_space() -> int:
    """Return the size of this process' address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def snapshot(folder: Path) -> dict[str, str]:
    """Return every file below a folder with a hash of its content, and every link with its target."""
    result = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            key = path.relative_to(folder).as_posix()
            if path.is_symlink():
                result[key] = f"link to {os.readlink(path)}"  # noqa: PTH115 - the target may not be valid UTF-8
            elif path.is_dir():
                result[key] = "folder"
            elif path.is_file():
                try:
                    result[key] = hashlib.blake2b(path.read_bytes()).hexdigest()
                except OSError as error:
                    result[key] = str(error.strerror)
            else:
                result[key] = "neither file nor folder"
    return result


def _judged(report: dict, said: str, may_change: tuple[str, ...]) -> Verdict:
    code = report["code"]
    lines = said.splitlines()
    if "Traceback (most recent call last)" in said:
        return Verdict("traceback", code, said)
    if code not in (0, 2):
        return Verdict("traceback", code, f"exit code {code}\n{said}")
    errors = [line for line in lines if line.startswith("error: ")]
    if bool(errors) != (code == 2) or any(len(line) > LONGEST_LINE for line in lines):
        return Verdict("message", code, said)
    if code == 2 and not lines[-1].startswith("error: "):
        return Verdict("message", code, said)
    kept = tuple(f"{place}/" for place in (*may_change, ".cache")) if code == 0 else (".cache/",)
    changed = [name for name in report["changed"] if not f"{name}/".startswith(kept)]
    if changed:
        return Verdict("changed", code, f"{changed}\n{said}")
    added = [
        name for name in report["added"] if not _is_expected(name) and not (code == 0 and f"{name}/".startswith(kept))
    ]
    if added:
        return Verdict("half-made", code, f"{added}\n{said}")
    return Verdict("", code, said)


def _is_expected(name: str) -> bool:
    """Whether a command may leave this file even if it fails: complete entries of the cache and exports for an engine,
    and locks."""
    last = name.rpartition("/")[2]
    partial = any(part.startswith((".", "tmp")) for part in name.removeprefix(".cache").split("/"))
    stored = name.startswith(".cache") or re.search(r"^runs/[^/]+/engine(/|$)", name) is not None
    return (stored and not partial) or last in (".lock", "__pycache__") or last.endswith(".lock")
