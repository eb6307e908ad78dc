"""The states in which a crash may leave a disk, as in ALICE (Pillai et al., OSDI 2014).

What was not flushed may be lost or partly written, in any order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tests.robustness.crash_states.trace import Inodes, Op

Tree = dict[str, "Tree | bytes | str"]
"""A folder: names with folders, contents of files, or targets of symbolic links."""

DAMAGE = ("whole", "empty", "half", "zeros", "half zeros")
"""What may be left of data that was written but not flushed."""


def states(ops: list[Op], inodes: Inodes, end: int) -> Iterator[Tree]:
    """Yield the states of the disk that a crash before `ops[end]` may leave, not all distinct.

    For folders: all unflushed changes of entries made, none, each one missing, each one alone; with each of DAMAGE for
    all unflushed files, and, with all entries, for each file alone.
    """
    seen = ops[:end]
    synced = {op.inode: number for number, op in enumerate(seen) if op.kind == "sync"}
    entries = [n for n, op in enumerate(seen) if op.kind in ("enter", "rename")]
    pending = [number for number in entries if number > synced.get(seen[number].inode, -1)]
    subsets = [frozenset[int](), *(frozenset({number}) for number in pending)]
    lost = dict.fromkeys([*subsets, *(frozenset(pending) - subset for subset in subsets)])
    files = sorted(
        {op.inode for n, op in enumerate(seen) if op.kind in ("write", "size") and n > synced.get(op.inode, -1)}
    )
    for missing in lost:
        for damage in DAMAGE if files else DAMAGE[:1]:
            yield _state(seen, inodes, missing, dict.fromkeys(files, damage), synced)
    for file in files if len(files) > 1 else ():
        for damage in DAMAGE[1:]:
            yield _state(seen, inodes, frozenset(), {file: damage}, synced)


def _state(
    seen: list[Op], inodes: Inodes, missing: frozenset[int], damage: dict[int, str], synced: dict[int, int]
) -> Tree:
    folders: dict[int, dict[str, int]] = {}
    contents: dict[int, bytearray] = {}
    flushed: dict[int, bytes] = {}
    for number, op in enumerate(seen):
        if op.kind == "write":
            content = contents.setdefault(op.inode, bytearray())
            content.extend(bytes(max(0, op.offset + len(op.content) - len(content))))
            content[op.offset : op.offset + len(op.content)] = op.content
        elif op.kind == "size":
            content = contents.setdefault(op.inode, bytearray())
            content.extend(bytes(max(0, op.offset - len(content))))
            del content[op.offset :]
        elif op.kind == "sync":
            flushed[op.inode] = bytes(contents.get(op.inode, b""))
        elif op.kind in ("enter", "rename") and number not in missing:
            if op.kind == "rename":
                folders.setdefault(op.old[0], {}).pop(op.old[1], None)
            folder = folders.setdefault(op.inode, {})
            if op.target is None:
                folder.pop(op.name, None)
            else:
                folder[op.name] = op.target

    def content_of(inode: int) -> bytes:
        content, before = bytes(contents.get(inode, b"")), flushed.get(inode, b"")
        kind = damage.get(inode, "whole")
        if kind == "whole":
            return content
        if kind == "empty":
            return before
        half = len(before) + (len(content) - len(before)) // 2
        if kind == "half":
            return content[:half]
        rest = len(content) - (half if kind == "half zeros" else min(len(before), len(content)))
        return content[: len(content) - rest] + bytes(rest)

    def tree(folder: int) -> Tree:
        result: Tree = {}
        for name, inode in folders.get(folder, {}).items():
            if inode in inodes.folders:
                result[name] = tree(inode)
            else:
                result[name] = inodes.links[inode] if inode in inodes.links else content_of(inode)
        return result

    return tree(0)


def write(tree: Tree, folder: Path) -> None:
    """Create the files of a state in a new folder."""
    folder.mkdir()
    for name, value in tree.items():
        if isinstance(value, dict):
            write(value, folder / name)
        elif isinstance(value, str):
            (folder / name).symlink_to(value)
        else:
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
            os.write(descriptor, value) if value else None
            os.close(descriptor)


def read(folder: Path) -> Tree:
    """Return the real files of a folder."""
    result: Tree = {}
    for path in folder.iterdir():
        if path.is_symlink():
            result[path.name] = str(path.readlink())
        else:
            result[path.name] = read(path) if path.is_dir() else path.read_bytes()
    return result
