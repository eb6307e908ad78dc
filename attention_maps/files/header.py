"""Read and validate the safetensors files of recordings using only the standard library.

A file consists of the header length (8 bytes, little-endian), the header (a JSON object with dtype, shape and offsets
of every tensor) and the contiguous bytes of the tensors.
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
from attention_maps.files.json_checks import is_size, is_text, need, parse_json

FORMAT = "chumoku-attention"
VERSION = "1"

LONGEST_HEADER = 32 * 2**20  # bytes; several hundred samples of 512 tokens
LARGEST_TENSOR = 512 * 2**20  # bytes

SIZES = {"F16": 2, "F32": 4}
"""Bytes of a number in each format that recordings use."""


@dataclass(frozen=True)
class Tensor:
    """Dtype, shape and location of a tensor; `start` and `stop` are byte offsets in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """A validated header: its tensors fill the file without gap or overlap, and those of a format in SIZES have the
    size that their shape requires."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a regular file for reading. Raises NotThere, also for I/O errors in the block; messages name the file."""
    name = Path(path).name
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotThere("this is not a regular file")
            yield file
    except OSError as error:
        raise NotThere(f"{name} cannot be read: {error.strerror or error}") from error
    except (NotThere, Damaged) as refusal:
        raise type(refusal)(f"{name}: {refusal}") from refusal


def read_header(file: BinaryIO) -> Header:
    """Read and validate the header of an open file. Raises Damaged, also for other safetensors files and recordings of
    another format version."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    need(len(start) == 8, f"truncated after {len(start)} bytes")
    (length,) = struct.unpack("<Q", start)
    fits = length <= size - 8
    need(fits, f"truncated or not safetensors: its header should have {length} bytes, the file has {size}")
    need(length <= LONGEST_HEADER, f"its header has {length} bytes, more than the limit of {LONGEST_HEADER}")
    try:
        text = file.read(length).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(f"not safetensors: its header is not UTF-8 ({error.reason})") from error
    header = parse_json(text, "its header")
    need(isinstance(header, dict), "not safetensors: its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    right = isinstance(metadata, dict) and all(map(is_text, metadata.values()))
    need(right, "its metadata must map names to strings")
    tensors = {name: _tensor(name, entry, 8 + length) for name, entry in header.items()}
    end = 8 + length
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start != end:  # not `need`: a file has thousands of tensors, and it would build every message
            raise Damaged(f"tensor {name} begins at byte {tensor.start} instead of {end}")
        end = tensor.stop
    need(end == size, f"truncated or overwritten: its tensors end at byte {end}, the file at {size}")
    need(metadata.get("format") == FORMAT, "a safetensors file, but not an attention recording")
    version = metadata.get("version")
    need(version == VERSION, f"recording format {version}; this program reads {VERSION}")
    return Header(tensors, metadata)


def read_tensor(file: BinaryIO, tensor: Tensor) -> bytes:
    """Read the bytes of a tensor. Raises Damaged if the file has been truncated or the tensor is too large."""
    size = tensor.stop - tensor.start
    need(size <= LARGEST_TENSOR, f"a tensor has {size} bytes, more than the limit of {LARGEST_TENSOR}")
    file.seek(tensor.start)
    content = file.read(size)
    need(len(content) == size, "truncated while it was being read")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking: a named pipe must not block the server until it has a writer. A link is not followed: it
    may lead to any file."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def _tensor(name: str, entry: Any, base: int) -> Tensor:
    if not isinstance(entry, dict):
        raise Damaged(f"tensor {name} has no description")
    dtype, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str):
        raise Damaged(f"tensor {name} has no dtype")
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(is_size, shape)):
        raise Damaged(f"tensor {name} has an invalid shape")
    if not isinstance(place, list) or len(place) != 2 or not all(map(is_size, place)):
        raise Damaged(f"tensor {name} has invalid offsets")
    start, stop = place
    if start > stop:
        raise Damaged(f"tensor {name} ends before it begins")
    if dtype in SIZES and stop - start != (size := SIZES[dtype] * math.prod(shape)):
        raise Damaged(f"tensor {name} has {stop - start} bytes, its shape {shape} needs {size}")
    return Tensor(dtype, tuple(shape), base + start, base + stop)
