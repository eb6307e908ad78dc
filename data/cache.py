"""The cache of prepared data: folders named by a key of what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from configs.program import expanded
from configs.whole_file import flush
from data.config import DataConfig
from data.errors import DataError

FORMAT = 1
"""Version of what is prepared from given content and settings: raised whenever rows, tokenizers or tokens change."""

CORPUS = 1
"""Version of the embedded corpus: raised whenever a row of it changes."""


def cache_folder(config: DataConfig, kind: str) -> Path:
    """Folder of all prepared data of one kind (rows, tokens, downloads, …)."""
    return expanded(config.cache) / kind


def content_key(**parts: Any) -> str:
    """Key of prepared data: hash of JSON-able values (content and settings) and of `FORMAT`."""
    text = json.dumps([FORMAT, parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def read_prepared(file: Path) -> Any:
    """The JSON file of a prepared folder. Raises DataError with the fix when it is damaged (by a broken copy, say)."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the prepared data in {file.parent} are damaged ({file.name}): delete that folder") from error


def cached_folder(root: Path, key: str, build: Callable[[Path], None]) -> Path:
    """The folder `root/key`. When missing, `build` fills an empty folder that is then renamed: it is complete or
    absent, after a power cut too.

    Of several processes that start together one builds and the others wait. A failed build leaves nothing behind.
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
