"""Folders of prepared data, named by the hash of what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from configs.whole_file import flush
from data.errors import DataError


def content_key(**parts: Any) -> str:
    """Hash of JSON-able values and of the code of this package: other content or other code is another key."""
    text = json.dumps(parts | {"code": code_version()}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def code_version() -> str:
    """Hash of the package's own source (embedded corpus included): prepared data never outlives the code that made
    it."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def read_prepared(file: Path) -> Any:
    """The JSON of a prepared folder; DataError, with the fix, where it is damaged, by a copy that broke off say."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the prepared data in {file.parent} are damaged ({file.name}): delete that folder") from error


def cached_folder(root: Path, key: str, build: Callable[[Path], None]) -> Path:
    """The folder `root/key`; if it is not there, `build` fills an empty one, which then gets that name in one step: it
    is whole, after a power cut too.

    Of several processes that start together one builds and the others wait for it. A failed build leaves nothing
    behind.
    """
    folder = root / key
    if folder.is_dir():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / f"{key}.lock")
        lock.acquire()
    except OSError as error:
        raise DataError(
            f"data.cache: cannot write to {root} ({error.strerror}); set data.cache to another folder"
        ) from error
    try:
        if not folder.is_dir():
            for abandoned in root.glob(f".{key}-*"):  # of a process that was killed: only the holder of the lock builds
                shutil.rmtree(abandoned, ignore_errors=True)
            fresh = root / f".{key}-{os.getpid()}"
            fresh.mkdir()
            try:
                build(fresh)
                for path in (*fresh.rglob("*"), fresh):
                    flush(path)
                fresh.rename(folder)
                flush(root)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    finally:
        lock.release()
    return folder
