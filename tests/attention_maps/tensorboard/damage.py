"""Damage to the bytes of a recording: truncated, overwritten, foreign and hostile files."""

import json
import random
import struct
from collections.abc import Callable
from copy import deepcopy
from typing import Any

PARTS = ("samples", "measures", "labels", "scores", "parts")

RAW = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "-0.0",
    "9" * 30,
    "9" * 5000,
    "9007199254740993",
    "0.1e-400",
    "",
    "[" * 100_000,
    "[" * 500 + "]" * 500,
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    '"\\ud800"',
    '"\\u0000"',
    "'",
    "nul",
    "// no",
    '{"a":1,"a":2}',
    "\ufeff1",
]
"""JSON, or nearly, that `json.dumps` would not write."""

VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    10**6,
    2**31,
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    2**70,
    0.5,
    -0.5,
    1e308,
    1.0,
    "",
    "0",
    "F16",
    "F32",
    "BF16",
    "encoder",
    "decoder",
    "cross",
    "reads",
    "source",
    "x" * 5_000,
    "\0",
    "../..",
    "\u202e",
    [],
    {},
    [[]],
    [{}],
    [0],
    [0, 0],
    [0, 4],
    [1, 0],
    [-1, 3],
    [0, 2**60],
    [4, 2, 2**40],
    [None],
    [[None]],
    [[0.5, 0.5], [0.5, 0.5]],
    {"a": []},
    {"cross": 1},
    {"cross": [[1]]},
    {"dtype": "F16", "shape": [0], "data_offsets": [0, 0]},
    {"ids": [], "pieces": [], "special": []},
]


def pack(header: bytes, data: bytes, length: int | None = None) -> bytes:
    """Return a file of these parts; `length`: header length that the file declares."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def unpack(whole: bytes) -> tuple[dict[str, Any], bytes]:
    """Split a complete file into header and data."""
    (length,) = struct.unpack("<Q", whole[:8])
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def damage_bytes(whole: bytes, chance: random.Random) -> bytes:
    """Truncate, flip, overwrite, insert, remove or append bytes."""
    changed = bytearray(whole)
    place = chance.choice([chance.randrange(len(whole)), chance.randrange(600), chance.randrange(8)])
    match chance.randrange(6):
        case 0:
            return whole[:place]
        case 1:
            for _ in range(chance.choice([1, 1, 2, 20])):
                changed[chance.randrange(chance.choice([8, 2000, len(whole)]))] ^= 1 << chance.randrange(8)
        case 2:
            changed[place : place + 40] = chance.randbytes(chance.randrange(80))
        case 3:
            changed[place:place] = chance.randbytes(chance.randrange(1, 40))
        case 4:
            del changed[place : place + chance.randrange(1, 40)]
        case _:
            changed += chance.randbytes(chance.randrange(1, 40))
    return bytes(changed)


def damage_length(whole: bytes, chance: random.Random) -> bytes:
    """Declare a wrong header length."""
    (length,) = struct.unpack("<Q", whole[:8])
    lengths = [
        0,
        1,
        2,
        length - 1,
        length + 1,
        length + 2,
        len(whole) - 8,
        len(whole) - 7,
        len(whole),
        2**31,
        2**32,
        2**62,
        2**63,
        2**64 - 1,
        2**64 - 8,
        chance.randrange(2**64),
        chance.randrange(len(whole)),
    ]
    return struct.pack("<Q", chance.choice(lengths)) + whole[8:]


def foreign(whole: bytes, chance: random.Random) -> bytes:
    """Replace the file by something else."""
    files = [
        b"",
        b"\0" * 8,
        b"\0" * 4096,
        chance.randbytes(chance.randrange(4096)),
        b"PK\x03\x04" + chance.randbytes(100),
        b"\x89PNG\r\n",
        b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        b"<html>" * 20,
        b"version https://git-lfs.github.com/spec/v1\n",
        pack(b"{}", b""),
        pack(b"[]", b""),
        pack(b"null", b""),
        pack(b'"text"', b""),
        pack(b"\xff\xfe{\0}\0", b""),
        pack(b"\xef\xbb\xbf{}", b""),
        pack('{"é":1}'.encode("latin-1"), b""),
        pack(b'{"__metadata__":{"format":"pt"}}', b""),
        pack(b"{}" + b" " * 5000, b""),
        pack(b'{"__metadata__":{"format":"chumoku-attention","version":"2"}}', b""),
        pack(b'{"__metadata__":[]}', b""),
        pack(b'{"__metadata__":{"format":"chumoku-attention","version":"1","step":"1","samples":"[]"}}', b""),
    ]
    raw = chance.choice(RAW).encode("utf-8", "surrogatepass")
    return chance.choice([*files, pack(raw, b""), pack(b'{"a":' + raw + b"}", b""), whole * 2])


def places(tree: Any) -> list[tuple[Any, Any]]:
    """List every place of a JSON tree as container and key."""
    found = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            found.append((node, key))
            waiting.append(node[key])
    return found


def disfigure(tree: Any, chance: random.Random) -> None:
    """Change one place of a JSON tree: replace, remove, duplicate, rename, wrap or move it."""
    container, key = chance.choice(places(tree) or [({}, "")])
    if key not in container and isinstance(container, dict):
        return
    match chance.randrange(8):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.insert(key, container[key])
        case 1:
            container[chance.choice(["", "cross", "0/cross/9", "1/cross/0", "0/cross/00", "0/self/0", "\ud800"])] = (
                container.pop(key)
            )
        case 2:
            container[key] = [container[key]]
        case 3:
            container[key] = deepcopy(chance.choice(places(tree))[0])  # a copy: a tree does not contain itself
        case 4:
            container[key] = f"raw{chance.randrange(len(RAW))}raw"
        case _:
            container[key] = deepcopy(chance.choice(VALUES))


def dump(tree: Any) -> str:
    """Serialise a tree, with invalid JSON inserted."""
    text = json.dumps(tree)
    for number, raw in enumerate(RAW):
        text = text.replace(f'"raw{number}raw"', raw)
    return text


def damage_header(whole: bytes, chance: random.Random) -> bytes:
    """Change names, dtypes, shapes and offsets of tensors, and the metadata."""
    header, data = unpack(whole)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        disfigure(header, chance)
    return pack(dump(header).encode("utf-8", "surrogatepass"), data)


def damage_tensor(whole: bytes, chance: random.Random) -> bytes:
    """Change the description of one tensor only."""
    header, data = unpack(whole)
    name = chance.choice([name for name in header if name != "__metadata__"])
    start, stop = header[name]["data_offsets"]
    offsets = [
        [-start, stop],
        [start, -stop],
        [stop, start],
        [start, stop + 2],
        [start - 2, stop],
        [0, len(data)],
        [0, 2**63],
        [2**62, 2**62 + stop - start],
        [start, start],
        [start + 0.5, stop],
        [str(start), stop],
        [start],
        [start, stop, stop],
        [0, stop - start],
        None,
        [True, stop],
    ]
    shape = header[name]["shape"]
    shapes = [
        [],
        [stop - start],
        [(stop - start) // 2],
        [-1, -1, (stop - start) // 2],
        [2**32, 2**32, 0],
        [2**63, 2, 0],
        [0],
        [1] * 5000,
        shape[::-1],
        [*shape, 1],
        [1, *shape],
        ["2"],
        [2.0],
        None,
    ]
    match chance.randrange(4):
        case 0:
            header[name]["data_offsets"] = chance.choice(offsets)
        case 1:
            header[name]["shape"] = chance.choice(shapes)
        case 2:
            header[name]["dtype"] = chance.choice(
                ["F32", "I16", "f16", "", None, 5, ["F16"], "F16\0", "BF16", "x" * 1000]
            )
        case _:
            other = chance.choice([name for name in header if name != "__metadata__"])
            header[name], header[other] = header[other], header[name]
    return pack(json.dumps(header).encode(), data)


def damage_contents(whole: bytes, chance: random.Random) -> bytes:
    """Change the contents of one JSON string of the metadata; the rest stays valid."""
    header, data = unpack(whole)
    metadata = header["__metadata__"]
    part = chance.choice(PARTS)
    tree = json.loads(metadata[part])
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        disfigure(tree, chance)
    metadata[part] = chance.choice([dump(tree)] * 12 + [chance.choice(RAW), ""])
    if chance.random() < 0.1:
        metadata["step"] = chance.choice(["", "-1", "1.0", "٣", "²", "9" * 16, "9" * 5000, " 1", "NaN", "\ud800"])
    return pack(json.dumps(header).encode(), data)


DAMAGES: list[tuple[Callable[[bytes, random.Random], bytes], int]] = [
    (damage_bytes, 600),
    (damage_length, 150),
    (foreign, 250),
    (damage_header, 500),
    (damage_tensor, 400),
    (damage_contents, 1000),
]
"""What is done to a file, and how many times."""
