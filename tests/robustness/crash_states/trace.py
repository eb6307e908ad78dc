"""Trace the system calls of a program with strace, as operations on inodes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_DATA = "write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,sendfile,copy_file_range,lseek"
_ENTRIES = "mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir"
CALLS = f"{_DATA},{_ENTRIES},open,openat,creat,fsync,fdatasync,close"

MARK = "/MARK/"
"""`os.rmdir(MARK + text)` fails, and leaves the text in the trace."""


@dataclass(frozen=True)
class Op:
    """One operation. `write`: content at `offset` of an inode; `size`: set the size of an inode to `offset`; `enter`: a
    name of a folder (an inode) now means `target`, an inode, or nothing if that is None; `rename`: like `enter` for the
    new name, and removes the old one; `sync`: fsync of an inode; `mark`: text."""

    kind: str
    inode: int = 0
    offset: int = 0
    content: bytes = b""
    name: str = ""
    target: int | None = None
    old: tuple[int, str] = (0, "")
    text: str = ""


class Inodes:
    """The files as the program sees them, to find the inode of a path."""

    def __init__(self) -> None:
        self.folders: dict[int, dict[str, int]] = {0: {}}
        self.links: dict[int, str] = {}
        self.next = 1

    def new(self, *, folder: bool = False, link: str | None = None) -> int:
        """Return the number of a new inode."""
        number, self.next = self.next, self.next + 1
        if folder:
            self.folders[number] = {}
        if link is not None:
            self.links[number] = link
        return number

    def find(self, parts: tuple[str, ...]) -> int | None:
        """Return the inode of a path relative to the root; symbolic links in front of the last part are followed."""
        inode: int | None = 0
        for number, part in enumerate(parts):
            inode = self.folders.get(inode, {}).get(part) if inode is not None else None
            if inode in self.links and number < len(parts) - 1:
                inode = self.find((*parts[:number], self.links[inode]))
        return inode


def can_trace() -> bool:
    """Whether strace is installed and permitted: some containers forbid tracing."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


def traced(command: list[str], base: Path, log: Path, env: dict[str, str]) -> dict[str, tuple[list[Op], Inodes]]:
    """Run a command under strace -> by NAME of the marks `begin NAME`, the operations after it below `base/NAME`, in
    order, and the final files."""
    strace = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "50000000", "-o", str(log), "-e", f"trace={CALLS}"]
    done = subprocess.run([*strace, *command], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    begin = "".join(f"\\x{byte:02x}" for byte in f"{MARK}begin ".encode())
    result = {}
    for part in re.split(rf"^.*{re.escape(begin)}", log.read_text(encoding="ascii"), flags=re.MULTILINE)[1:]:
        name = _text(part.partition('"')[0]).decode()
        result[name] = parsed(part.partition("\n")[2], base / name)
    return result


_CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?(?: .*)?$", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"(\d+|AT_FDCWD)<((?:[^<>]|<[^<>]*>)*)>")


def _text(hexadecimal: str) -> bytes:
    return bytes.fromhex(hexadecimal.replace("\\x", ""))


def _path(shown: str) -> str:
    """Return the path in the angle brackets of a descriptor, which may be escaped."""
    return os.fsdecode(re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), shown.encode()))


def parsed(log: str, root: Path) -> tuple[list[Op], Inodes]:
    """Convert strace's output to operations below `root`."""
    reader = _Reader(root)
    unfinished: dict[str, str] = {}
    for line in log.splitlines():
        pid = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            unfinished[pid] = line.removesuffix("<unfinished ...>")
            continue
        if resumed := re.match(r"^\d+ +<\.\.\. \w+ resumed>(.*)$", line, re.DOTALL):
            line = unfinished.pop(pid) + resumed[1]
        if match := _CALL.match(line):
            reader.read(match[2], match[3], int(match[4]))
    return reader.ops, reader.inodes


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root, self.ops, self.inodes = str(root), list[Op](), Inodes()
        self.positions: dict[str, int] = {}
        self.appending: set[str] = set()
        self.sizes: dict[int, int] = {}

    def parts(self, path: str) -> tuple[str, ...] | None:
        """Return the parts of an absolute path below the root."""
        path = os.path.normpath(path)
        if path != self.root and not path.startswith(f"{self.root}/"):
            return None
        return tuple(part for part in path[len(self.root) :].split("/") if part)

    def paths(self, arguments: str) -> list[str]:
        """Return the absolute paths among the arguments of a call."""
        result, folder = [], None
        for match in re.finditer(rf"{_DESCRIPTOR.pattern}|{_TEXT.pattern}", arguments):
            if match[3] is None:
                folder = _path(match[2])
            else:
                result.append(str(Path(folder or self.root) / os.fsdecode(_text(match[3]))))
                folder = None
        return result

    def read(self, call: str, arguments: str, result: int) -> None:
        """Add the operation of one call."""
        if call == "rmdir" and MARK in (path := self.paths(arguments)[0]):
            self.ops.append(Op("mark", text=path.partition(MARK)[2]))
        elif result < 0:
            return
        elif call in ("open", "openat", "creat"):
            self.open(call, arguments, result)
        elif call in _DATA.split(",") or call in ("fsync", "fdatasync", "close"):
            self.descriptor(call, arguments, result)
        else:
            self.entry(call, [self.parts(path) for path in self.paths(arguments)], arguments)

    def open(self, call: str, arguments: str, result: int) -> None:
        """Handle a file that is opened, which may create or empty it."""
        path = self.paths(arguments)[0]
        if (parts := self.parts(path)) is None:
            return
        inode = self.inodes.find(parts)
        if inode is None and ("O_CREAT" in arguments or call == "creat"):
            inode = self.inodes.new()
            self.enter(parts, inode)
            self.sizes[inode] = 0
        elif inode in self.sizes and "O_TRUNC" in arguments and self.sizes[inode]:
            self.resize(inode, 0)
        key = f"{result}<{path}"
        self.positions[key] = 0
        (self.appending.add if "O_APPEND" in arguments else self.appending.discard)(key)

    def enter(self, parts: tuple[str, ...], inode: int | None) -> None:
        """Set or remove (None) an entry of a folder."""
        folder = self.inodes.find(parts[:-1])
        assert folder is not None, parts
        if inode is None:
            del self.inodes.folders[folder][parts[-1]]
        else:
            self.inodes.folders[folder][parts[-1]] = inode
        self.ops.append(Op("enter", folder, name=parts[-1], target=inode))

    def resize(self, inode: int, size: int) -> None:
        self.sizes[inode] = size
        self.ops.append(Op("size", inode, offset=size))

    def descriptor(self, call: str, arguments: str, result: int) -> None:
        """Handle a call on an open file."""
        match = _DESCRIPTOR.match(arguments)
        if match is None or (parts := self.parts(_path(match[2]).removesuffix(" (deleted)"))) is None:
            return
        key, inode = f"{match[1]}<{_path(match[2])}", self.inodes.find(parts)
        if inode is None:
            return  # deleted
        if call == "lseek":
            self.positions[key] = result
        elif call in ("fsync", "fdatasync"):
            self.ops.append(Op("sync", inode))
        elif call == "ftruncate":
            self.resize(inode, int(arguments.rpartition(",")[2]))
        elif call in ("write", "pwrite64"):
            content = _text(_TEXT.search(arguments)[1])[:result]  # type: ignore[index]
            if call == "pwrite64":
                start = int(arguments.rpartition(",")[2])
            else:
                start = self.sizes[inode] if key in self.appending else self.positions.get(key, 0)
                self.positions[key] = start + result
            self.sizes[inode] = max(self.sizes[inode], start + result)
            self.ops.append(Op("write", inode, offset=start, content=content))
        else:
            assert call == "close", f"{call} is not simulated: {arguments[:200]}"

    def entry(self, call: str, paths: list[tuple[str, ...] | None], arguments: str) -> None:
        """Handle a call on names."""
        if call.startswith("symlink"):
            if paths[-1] is not None:
                target = os.fsdecode(_text(_TEXT.search(arguments)[1]))  # type: ignore[index]
                self.enter(paths[-1], self.inodes.new(link=target))
        elif any(parts is None for parts in paths):
            assert all(parts is None for parts in paths), f"{call} across the root"
        elif call.startswith("mkdir"):
            self.enter(paths[0], self.inodes.new(folder=True))  # type: ignore[arg-type]
        elif call.startswith(("unlink", "rmdir")):
            self.enter(paths[0], None)  # type: ignore[arg-type]
        elif call.startswith("link"):
            self.enter(paths[1], self.inodes.find(paths[0]))  # type: ignore[arg-type]
        else:
            (old, new), inode = paths, self.inodes.find(paths[0])  # type: ignore[arg-type]
            before, after = self.inodes.find(old[:-1]), self.inodes.find(new[:-1])  # type: ignore[index]
            assert before is not None
            assert after is not None
            del self.inodes.folders[before][old[-1]]  # type: ignore[index]
            self.inodes.folders[after][new[-1]] = inode  # type: ignore[index]
            self.ops.append(Op("rename", after, name=new[-1], target=inode, old=(before, old[-1])))  # type: ignore[index]
