"""The cache of prepared data: each folder is named by a key of the content and settings that it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from configs.atomic_file import flush
from configs.program import expanded
from data.config import DataConfig
from data.errors import DataError

FORMAT = 2
"""Version of the prepared data; increase it whenever rows, tokenizers or tokens change for the same input."""

CORPUS = 14
"""Version of the built-in corpus; increase it whenever a row changes."""


def cache_folder(config: DataConfig, kind: str) -> Path:
    """Return the folder of all prepared data of one kind (rows, tokens, downloads, …)."""
    return expanded(config.cache) / kind


def content_key(**parts: Any) -> str:
    """Return the key of prepared data: a hash of JSON-serialisable values (content and settings) and of `FORMAT`."""
    text = json.dumps([FORMAT, parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def read_prepared(file: Path) -> Any:
    """Read the JSON file of a prepared folder. Raises DataError with the fix if it is damaged (e.g. half copied)."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the prepared data in {file.parent} are damaged ({file.name}): delete that folder") from error


def cached_folder(root: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder `root/key`. If it is missing, `build` fills an empty folder, which is then renamed: the result
    is complete or absent, even after a power failure.

    If several processes start together, one builds and the others wait. A failed build leaves nothing behind.
    """
    folder = root / key
    if folder.is_dir():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / f"{key}.lock").acquire()
    except OSError as error:
        raise DataError(
            f"data.cache: cannot write to {root} ({error.strerror}); set data.cache to another folder"
        ) from error
    with lock:
        if not folder.is_dir():
            for abandoned in root.glob(f".{key}-*"):  # left by a killed process: only the holder of the lock builds
                shutil.rmtree(abandoned, ignore_errors=True)
            fresh = root / f".{key}-{os.getpid()}"
            fresh.mkdir()
            try:
                build(fresh)
                for path in (*fresh.rglob("*"), fresh):
                    flush(path)
                fresh.rename(folder)  # not flushed: if a power failure undoes it, the data are prepared again
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return folder
