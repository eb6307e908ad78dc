"""Damage to bytes and to JSON or YAML trees."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31, 2**53 + 1, 2**63, 2**70, -(2**63)),
    *(0.5, -0.5, 1e308, 1e-320, float("nan"), float("inf"), float("-inf")),
    *("", "0", "x" * 5000, "\0", "../..", "/etc/passwd", "${seed}", "${oc.env:HOME}", "???", "${oc.decode:'1'}"),
    *("\u202e", "注目", "null", "1e5", [], {}, [[]], [None], {"a": 1}, {"_target_": "os.system", "_args_": ["true"]}),
)
"""Values to put in the place of others."""

Change = tuple[str, float, Any]
"""What to do with which place (a share of all places) of a tree, and the value to use."""

changes = st.lists(
    st.tuples(
        st.sampled_from(("replace", "replace", "replace", "remove", "rename", "wrap", "double", "negate")),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(ODD),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """List every place of a tree as container and key."""
    result, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list | tuple) else ():
            result.append((node, key))
            waiting.append(node[key])
    return result


def changed(tree: Any, todo: tuple[Change, ...]) -> Any:
    """Return a copy of a tree with some places changed."""
    tree = copy.deepcopy(tree)
    for what, share, value in todo:
        there = [place for place in places(tree) if not isinstance(place[0], tuple)]
        if not there:
            return value
        container, key = there[int(share * len(there))]
        before = container[key]
        match what:
            case "remove":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[str(value)] = container.pop(key)
            case "wrap":
                container[key] = [before]
            case "double" if isinstance(before, str | list):
                container[key] = before + before
            case "negate" if isinstance(before, int | float):
                container[key] = -before
            case _:
                container[key] = copy.deepcopy(value)
    return tree


Cut = tuple[str, float, bytes]
"""What to do with the bytes of a file, at which share of its length, and the bytes to use."""

cuts = st.tuples(
    st.sampled_from(("truncate", "flip", "overwrite", "insert", "delete", "append", "empty", "zeros", "swap")),
    st.one_of(st.floats(0, 1, exclude_max=True), st.floats(0, 0.02)),
    st.binary(min_size=1, max_size=16),
)


def cut(content: bytes, how: Cut) -> bytes:
    """Return damaged bytes."""
    what, share, other = how
    place = int(share * len(content))
    match what:
        case "truncate":
            return content[:place]
        case "flip" if content:
            place = min(place, len(content) - 1)
            return content[:place] + bytes([content[place] ^ (other[0] or 1)]) + content[place + 1 :]
        case "overwrite":
            return content[:place] + other + content[place + len(other) :]
        case "insert":
            return content[:place] + other + content[place:]
        case "delete":
            return content[:place] + content[place + len(other) :]
        case "empty":
            return b""
        case "zeros":
            return content[:place] + b"\0" * (len(content) - place)
        case "swap":
            return content[place:] + content[:place]
    return content + other
