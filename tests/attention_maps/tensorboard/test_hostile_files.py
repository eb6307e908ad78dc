"""Thousands of broken, foreign and hostile files: each is shown as it is or refused with a reason."""

import json
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from attention_maps.files import store
from attention_maps.record.recording import Recording
from tests.attention_maps.tensorboard.conftest import Tab, refusal

WHAT = ("weights", "norms", "values", "rollout")
PARTS = ("samples", "measures", "labels", "scores")

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
    """A file of these parts, `length` being what it says of its header."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def unpack(whole: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and data of a whole file."""
    (length,) = struct.unpack("<Q", whole[:8])
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def damage_bytes(whole: bytes, chance: random.Random) -> bytes:
    """Cut, flip, overwrite, insert, remove or lengthen."""
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
    """Lie about the header's length."""
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
    """Something else altogether."""
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
    """Every place of a JSON tree as its container and key."""
    found = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            found.append((node, key))
            waiting.append(node[key])
    return found


def disfigure(tree: Any, chance: random.Random) -> None:
    """Change one place of a JSON tree: replace, remove, double, rename, wrap or move."""
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
            container[key] = chance.choice(places(tree))[0]
            try:  # it may contain itself now, which is no tree any more
                json.dumps(tree)
            except (ValueError, RecursionError):
                container[key] = None
        case 4:
            container[key] = f"raw{chance.randrange(len(RAW))}raw"
        case _:
            container[key] = chance.choice(VALUES)


def dump(tree: Any) -> str:
    """A tree as JSON, with what is no JSON in it."""
    text = json.dumps(tree)
    for number, raw in enumerate(RAW):
        text = text.replace(f'"raw{number}raw"', raw)
    return text


def damage_header(whole: bytes, chance: random.Random) -> bytes:
    """Change names, dtypes, shapes and offsets of tensors, and the metadata's texts."""
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
    """Change what lies in one of the metadata's JSON texts, all around it staying whole."""
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


@pytest.mark.parametrize(("damage", "times"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_a_hostile_file_is_refused_or_safe_to_show(
    tab: type[Tab], complete: Recording, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes], times: int
) -> None:
    """Guards TensorBoard against every byte of a file, and the page against a structure that it does not expect."""
    chance = random.Random(damage.__name__)
    whole_path = store.save(replace(complete, step=1), tmp_path / "run")
    whole = whole_path.read_bytes()
    path = store.path(tmp_path / "run", 2)
    path.write_bytes(whole)
    shown = tab(tmp_path)
    good = shown.json("meta", run="run", recording="step_00000001")
    shown_count = 0
    for case in range(times):
        path.write_bytes(damage(whole, chance))
        try:
            shown_count += is_shown_well(shown, "step_00000002", chance)
            curves = shown.json("curves", run="run")
            assert 1 in curves["steps"]
            assert len(curves["measures"]["entropy"]["cross"]) == len(curves["steps"])
        except Exception as error:
            raise AssertionError(f"case {case} of {damage.__name__}: {path.read_bytes()[:3000]!r}") from error
    assert shown_count < times / 2, "hardly anything was damaged"
    path.write_bytes(whole)
    assert is_shown_well(shown, "step_00000002", chance)
    assert shown.json("meta", run="run", recording="step_00000001") == good


@pytest.mark.parametrize(("damage", "times"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_what_the_tab_refuses_no_script_can_load(
    tab: type[Tab], complete: Recording, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes], times: int
) -> None:
    """Guards commands and scripts against tracebacks, and against two readers that disagree about one file."""
    chance = random.Random(f"load {damage.__name__}")
    path = store.save(replace(complete, step=1), tmp_path / "run")
    whole = path.read_bytes()
    shown = tab(tmp_path)
    for case in range(times // 4):
        path.write_bytes(damage(whole, chance))
        try:
            store.load(path)
            reason = ""
        except store.RecordingError as error:
            reason = str(error)
        except Exception as error:
            raise AssertionError(f"case {case} of {damage.__name__}: {path.read_bytes()[:3000]!r}") from error
        assert not reason or reason.startswith(f"{path}: ")
        loaded = not reason or "deviation" in reason  # of which the tab knows nothing
        assert loaded == (shown.get("meta", run="run", recording="step_00000001").status_code == 200)


def is_shown_well(shown: Tab, recording: str, chance: random.Random) -> bool:
    """Ask for a recording as the page does; whether it is shown. All that the page relies on is asserted."""
    where = {"run": "run", "recording": recording}
    answer = shown.get("meta", **where)
    if answer.status_code != 200:
        assert refusal(answer, 422).startswith(f"{recording}.safetensors: ")
        any_map = {
            "sample": 0,
            "kind": chance.choice(["encoder", "cross"]),
            "layer": chance.randrange(3),
            "what": chance.choice(WHAT),
        }
        check_tensor(shown.get("tensor", **where, **any_map))
        return False
    meta = strict(answer.data)
    assert meta["kinds"]
    for number, sample in enumerate(meta["samples"]):
        check_sample(sample)
        for kind, extent in meta["kinds"].items():
            for what in WHAT:
                for layer in range(1 if what == "rollout" else extent["layers"]):
                    shape = check_tensor(shown.get("tensor", **where, sample=number, kind=kind, layer=layer, what=what))
                    assert shape == expected_shape(sample, kind, what, extent["heads"]) or (
                        shape is None and what != "weights"
                    )
    for by_kind in [*meta["measures"].values(), meta["labels"]]:
        for kind, matrix in by_kind.items():
            assert len(matrix) == meta["kinds"][kind]["layers"]
            for row in matrix:
                assert len(row) == meta["kinds"][kind]["heads"]
                assert all(isinstance(value, str) if by_kind is meta["labels"] else is_number(value) for value in row)
    for score in meta["scores"]:
        assert score.keys() == {"measure", "name", "value", "kind", "layer", "head"}
        assert is_number(score["value"])
        assert score["kind"] is None or score["kind"] in meta["kinds"]
        for place, count in (("layer", "layers"), ("head", "heads")):
            assert score[place] is None or 0 <= score[place] < meta["kinds"][score["kind"]][count]
    return True


def check_sample(sample: dict[str, Any]) -> None:
    """What the page takes for granted of a sample."""
    for side in ("reads", "predicts", "source"):
        tokens = sample[side]
        if side == "source" and tokens is None:
            continue
        assert len(tokens["ids"]) == len(tokens["pieces"]) == len(tokens["special"])
        assert all(type(token) is int for token in tokens["ids"])
        assert all(isinstance(piece, str) for piece in tokens["pieces"])
        assert set(map(str, tokens["special"])) <= {"0", "1"}
    reads, predicts, source = (len((sample[side] or {"ids": []})["ids"]) for side in ("reads", "predicts", "source"))
    assert predicts in (reads, reads - 1)
    assert len(sample["losses"]) == predicts
    assert all(is_number(loss) for loss in sample["losses"])
    assert len(sample["predictions"]) == reads
    for row in sample["predictions"]:
        for token, piece, probability in row:
            assert type(token) is int
            assert isinstance(piece, str)
            assert is_number(probability)
    assert isinstance(sample["name"], str)
    assert type(sample["length"]) is type(sample["source_length"]) is int
    assert type(sample["truncated"]) is bool
    for position, predicted in sample["links"] or ():
        assert 0 <= position < source
        assert 0 <= predicted < predicts
    if sample["antecedents"]:
        tokens = sample[sample["antecedents"]["side"]]["ids"]
        for start, stop, other_start, other_stop in sample["antecedents"]["pairs"]:
            assert 0 <= start < stop <= len(tokens)
            assert 0 <= other_start < other_stop <= len(tokens)


def expected_shape(sample: dict[str, Any], kind: str, what: str, heads: int) -> list[int]:
    """The shape of a tensor for the tokens of its sample."""
    queries = len(sample["source" if kind == "encoder" else "reads"]["ids"])
    keys = len(sample["reads" if kind == "decoder" else "source"]["ids"])
    return {
        "weights": [heads, queries, keys],
        "norms": [heads, queries],
        "values": [heads, keys],
        "rollout": [queries, keys],
    }[what]


def check_tensor(answer: TestResponse) -> list[int] | None:
    """The shape of a tensor, whose bytes must fit it, or None for a refusal."""
    if answer.status_code != 200:
        assert answer.status_code in (404, 422)
        refusal(answer, answer.status_code)
        return None
    shape = [int(size) for size in answer.headers["X-Shape"].split(",")]
    count = 2
    for size in shape:
        count *= size
    assert len(answer.data) == count > 0
    assert answer.headers["X-Dtype"] == "F16"
    return shape


def is_number(value: Any) -> bool:
    """Null or a number that a browser can hold exactly enough."""
    return value is None or (type(value) in (int, float) and abs(value) < 1.8e308)


def strict(text: bytes) -> Any:
    """JSON as a browser parses it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
