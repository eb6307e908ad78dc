"""Join the engine's modules into one classic script, which a page opened from disk can start as a worker.

Opened from file://, Chromium starts no module worker, neither from a file nor from a `blob:` URL; both browsers start a
classic script from a `blob:` URL, which cannot import. So every module becomes the body of a function that returns what
it exports, called in the order of the imports. Only the forms of `import` and `export` below are understood: the
modules of the engine need no others.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ENTRY = "worker.js"

IMPORT = re.compile(r"""^import (?P<names>\{[^}]*\}|\* as \w+) from '(?P<path>\.\.?/[^'\n]+)';\n""", re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def worker_script(engine: Path) -> str:
    """Return one classic script of the module `worker.js` in a folder and of all that it imports.

    Raises ValueError for an import or export in another form, a missing module, and modules that import each other.
    """
    bodies: dict[str, str] = {}
    _add(ENTRY, engine, (), bodies)
    return "\n".join(["'use strict';", "const modules = {};", *bodies.values()])


def _add(name: str, engine: Path, importing: tuple[str, ...], bodies: dict[str, str]) -> None:
    """Add the script of a module after those that it imports. importing: the modules on the way to this one."""
    if name in importing:
        raise ValueError(f"{name} imports itself, through {' and '.join(importing)}")
    if name in bodies:
        return
    path = engine / name
    if not path.is_file():
        raise ValueError(f"{importing[-1] if importing else 'the engine'} needs {name}, which is not there")
    text = path.read_text("utf-8")
    targets = [
        posixpath.normpath(posixpath.join(posixpath.dirname(name), match["path"])) for match in IMPORT.finditer(text)
    ]
    for target in targets:
        _add(target, engine, (*importing, name), bodies)
    exported = ", ".join(match["name"] for match in EXPORT.finditer(text))
    places = iter(targets)
    body = EXPORT.sub("", IMPORT.sub(lambda match: _imported(match["names"], next(places)), text))
    if other := OTHER.search(body):
        raise ValueError(f"{name}: this form of import or export is not bundled: {other[0]}")
    bodies[name] = f"modules['{name}'] = (() => {{\n{body}return {{{exported}}};\n}})();"


def _imported(names: str, target: str) -> str:
    """Return the statement that takes over what a module imports: `{a, b as c}` or `* as d`."""
    names = names.removeprefix("* as ") if names.startswith("*") else re.sub(r"(\w+) as (\w+)", r"\1: \2", names)
    return f"const {names} = modules['{target}'];\n"
