"""Checked reading of safetensors files with the standard library alone.

A file is the header's length (8 bytes, little-endian), the header (a JSON object: dtype, shape and place of every
tensor) and the tensors' bytes, one after the other without a gap.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from attention_maps.files.errors import Damaged, NotThere
from attention_maps.files.json_checks import is_whole, parse_json

LONGEST_HEADER = 32 * 2**20  # bytes; some hundred samples of 512 tokens
LARGEST_TENSOR = 512 * 2**20  # bytes


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies: `start` and `stop` count bytes from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """A checked header: tensors by name lie within the file without overlap, and float16 ones have their
    shape's size."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A regular file for reading. Raises NotThere, also for trouble while it is being read; refusals name the file."""
    name = Path(path).name
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotThere("this is not a file")
            yield file
    except OSError as error:
        raise NotThere(f"{name} cannot be read: {error.strerror or error}") from error
    except (NotThere, Damaged) as refusal:
        raise type(refusal)(f"{name}: {refusal}") from refusal


def read_header(file: BinaryIO) -> Header:
    """The header of an opened file. Raises Damaged."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    if len(start) < 8:
        raise Damaged(f"cut off after {len(start)} bytes")
    (length,) = struct.unpack("<Q", start)
    if length > size - 8:
        raise Damaged(f"cut off, or not safetensors: its header should have {length} bytes, the file has {size}")
    if length > LONGEST_HEADER:
        raise Damaged(f"its header has {length} bytes, more than the {LONGEST_HEADER} that are read here")
    try:
        text = file.read(length).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(f"not safetensors: its header is no UTF-8 ({error.reason})") from error
    header = parse_json(text, "its header")
    if not isinstance(header, dict):
        raise Damaged("not safetensors: its header is no JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Damaged("its metadata are not texts by name")
    tensors = {name: _tensor(name, entry, 8 + length) for name, entry in header.items()}
    end = 8 + length
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start != end:
            raise Damaged(f"tensor {name} begins at byte {tensor.start} instead of {end}")
        end = tensor.stop
    if end != size:
        raise Damaged(f"cut off or overwritten: its tensors end at byte {end}, the file at {size}")
    return Header(tensors, metadata)


def read_tensor(file: BinaryIO, tensor: Tensor) -> bytes:
    """The bytes of a tensor. Raises Damaged where the file has changed meanwhile, or there is too much."""
    size = tensor.stop - tensor.start
    if size > LARGEST_TENSOR:
        raise Damaged(f"a tensor of {size} bytes is more than the {LARGEST_TENSOR} that are shown here")
    file.seek(tensor.start)
    content = file.read(size)
    if len(content) != size:
        raise Damaged("cut off while it was being read")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """A pipe with a recording's name must not block the server until somebody writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _tensor(name: str, entry: Any, base: int) -> Tensor:
    if not isinstance(entry, dict):
        raise Damaged(f"tensor {name} has no description")
    dtype, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str):
        raise Damaged(f"tensor {name} has no dtype")
    if not isinstance(shape, list) or len(shape) > 8 or not all(is_whole(size, 0) for size in shape):
        raise Damaged(f"tensor {name} has no proper shape")
    if not isinstance(place, list) or len(place) != 2 or not all(is_whole(offset, 0) for offset in place):
        raise Damaged(f"tensor {name} has no proper offsets")
    start, stop = place
    if start > stop:
        raise Damaged(f"tensor {name} ends before it begins")
    if dtype == "F16" and stop - start != 2 * math.prod(shape):
        raise Damaged(f"tensor {name} has {stop - start} bytes, its shape {shape} needs {2 * math.prod(shape)}")
    return Tensor(dtype, tuple(shape), base + start, base + stop)
