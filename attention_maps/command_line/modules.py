"""Join JavaScript modules into one script, for pages that are opened from disk.

Opened from file://, browsers import no modules from files, and a worker cannot import at all: Chromium starts no module
worker, neither from a file nor from a `blob:` URL; both browsers start a classic script from a `blob:` URL. `data:`
URLs in an import map do work in a page, but a hundred of them take as long to load as all else.

So every module becomes a function that returns what it exports, called when it is first imported. Only the forms of
`import` and `export` below are understood: our modules need no others.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

IMPORT = re.compile(r"""^import (?P<names>\{[^}]*\}|\* as \w+) from '(?P<path>\.\.?/[^'\n]+)';\n""", re.MULTILINE)
LATER = re.compile(r"""\bimport\('(?P<path>\.\.?/[^'\n]+)'\)""")
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\s*\(.*", re.MULTILINE)

PRELUDE = """'use strict';
const modules = {}; // by name, the function that returns what a module exports
const made = {}; // by name, what it has returned
const imported = (name) => (made[name] ??= modules[name]());
const importedLater = async (name) => imported(name);"""


def modules_in(folder: Path) -> dict[str, str]:
    """Return all modules in a folder, by their paths in it."""
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.js"))}


def joined(entry: str, modules: Mapping[str, str]) -> str:
    """Return one script, classic or module, that runs the module `entry`, with all that it imports.

    modules: their texts by path. Raises ValueError for an import or export in another form, a missing module or
    name, and modules that import each other.
    """
    bodies: dict[str, str] = {}
    waiting = [entry]
    while waiting:  # a module that is imported later may import the one that imports it
        _add(waiting.pop(0), modules, (), bodies, waiting)
    return "\n".join([PRELUDE, *bodies.values(), f"imported('{entry}');\n"])


def _add(
    name: str, modules: Mapping[str, str], importing: tuple[str, ...], bodies: dict[str, str], waiting: list[str]
) -> None:
    """Add the script of a module after those that it imports, and to `waiting` those that it imports later. importing:
    the modules on the way to this one."""
    if name in importing:
        raise ValueError(f"{name} imports itself, through {' and '.join(importing)}")
    if name in bodies:
        return
    if name not in modules:
        raise ValueError(f"{importing[-1] if importing else 'the page'} needs {name}, which is not there")
    text = modules[name]

    def target(match: re.Match[str]) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(name), match["path"]))

    for match in IMPORT.finditer(text):
        _add(target(match), modules, (*importing, name), bodies, waiting)
        if absent := _names(match["names"]) - set(_exported(modules[target(match)])):
            raise ValueError(f"{name} imports {min(absent)}, which {target(match)} does not export")
    waiting += map(target, LATER.finditer(text))
    exported = ", ".join(_exported(text))
    body = IMPORT.sub(lambda match: _imported(match["names"], target(match)), text)
    body = LATER.sub(lambda match: f"importedLater('{target(match)}')", EXPORT.sub("", body))
    if other := OTHER.search(body):
        raise ValueError(f"{name}: this form of import or export is not joined: {other[0]}")
    bodies[name] = f"modules['{name}'] = () => {{\n{body.rstrip()}\nreturn {{{exported}}};\n}};"


def _exported(text: str) -> list[str]:
    """Return the names that a module exports, in their order."""
    return [match["name"] for match in EXPORT.finditer(text)]


def _names(names: str) -> set[str]:
    """Return the names that an import needs of a module: of `{a, b as c}`, a and b; of `* as d`, none."""
    return set() if names.startswith("*") else set(re.findall(r"\w+", re.sub(r"\s+as \w+", "", names)))


def _imported(names: str, target: str) -> str:
    """Return the statement that takes over what a module imports: `{a, b as c}` or `* as d`."""
    names = names.removeprefix("* as ") if names.startswith("*") else re.sub(r"(\w+) as (\w+)", r"\1: \2", names)
    return f"const {names} = imported('{target}');\n"
