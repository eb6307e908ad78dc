"""The summary of a checkpoint, `state.json`: the counters, and checksums of all files. This module does not import
torch, so that a checkpoint can be identified without waiting for it."""

from __future__ import annotations

import json
import re
import textwrap
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import UserError
from training.checkpoints.checksums import Checksum
from training.hardware.out_of_memory import is_out_of_memory

WEIGHTS, STATE, SUMMARY = "weights.safetensors", "state.pt", "state.json"
DATA = "data"
"""Name of the hashes of the data, one string, in the state and in the summary."""
Checksums = dict[str, Checksum]


class Damaged(UserError):
    """A file of a checkpoint is missing or its content is wrong; `cause` names it and says why."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"{path}: missing or damaged ({cause}). To fix it: {fix(path.parent)}.")
        self.cause = f"{path.name}: {cause}"


def summary(progress: dict, checksums: Checksums) -> bytes:
    """Return the content of state.json: the counters, checksums of the other files, and a CRC-32 of these values."""
    content = progress | {"files": {name: checksum.to_json() for name, checksum in checksums.items()}}
    return f"{json.dumps(content | {'crc32': _crc32(content)}, indent=1, allow_nan=False)}\n".encode()


def read_summary(checkpoint: Path) -> tuple[dict, Checksums]:
    """Return the counters, with the hashes of the data, and the checksums of the other files; none in a summary that
    was written by hand."""
    path = checkpoint / SUMMARY
    with reading(path):
        content = json.loads(path.read_text(encoding="utf-8"))
        if {"files", "crc32"} & content.keys() and content.pop("crc32", None) != _crc32(content):
            raise ValueError("the checksum differs")
        checksums = {name: Checksum.from_json(entry) for name, entry in content.pop("files", {}).items()}
        return content | {"step": int(content["step"])}, checksums


def _crc32(content: dict) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def reason(error: Exception) -> str:
    """Return why a file was not written."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return textwrap.shorten(str(error) or type(error).__name__, 100)


def checkpoint_step(checkpoint: Path) -> int:
    """Return the step of a checkpoint from its counters; in a copied run the folder's name may differ."""
    return int(load_progress(checkpoint)["step"])


def step_order(checkpoint: Path) -> tuple[int, int]:
    """Return the sort key of a checkpoint or of early weights by its name: the step, and the number of the checkpoint
    among those of one step. As text, step 100,000,000 would come before 99,999,999."""
    match = re.fullmatch(r"[a-z]+-(\d+)(?:-(\d+))?", checkpoint.name)
    return (int(match[1]), int(match[2] or 1)) if match else (-1, 0)


def load_progress(checkpoint: Path) -> dict:
    """Load the counters of a checkpoint."""
    return read_summary(checkpoint)[0]


@contextmanager
def reading(path: Path, checksum: Checksum | None = None) -> Iterator[None]:
    """Inside the context, convert errors while reading a file to UserError, except out-of-memory errors.

    Raises Damaged if the content is wrong; with a checksum, this is checked first. Any other UserError means that the
    file may be intact.
    """
    try:
        path.open("rb").close()
        difference = None if checksum is None else checksum.difference(path)
    except FileNotFoundError as error:
        raise Damaged(path, "there is no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if difference is not None:
        raise Damaged(path, difference)
    try:
        yield
    except Exception as error:  # torch and safetensors raise many types for a damaged file
        if is_out_of_memory(error):
            raise
        cause = textwrap.shorten(str(error).strip() or type(error).__name__, 100)
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from error
        if checksum is not None:
            raise UserError(f"{path}: cannot be loaded ({cause}), although its checksum is right") from error
        raise Damaged(path, cause) from error


def fix(checkpoint: Path) -> str:
    """Return how to recover from an unusable checkpoint."""
    others = [path for path in checkpoint.parent.glob("step-*") if path != checkpoint]
    if others:
        return f"use another checkpoint, such as {max(others, key=step_order)}"
    return "copy the run again from where it was trained"
