"""Build the Attention tab as one self-contained HTML file with scripts, style sheets and recordings.

Browsers block module imports on pages opened from disk. Therefore every module becomes a `data:` URL in an import map,
under a bare name ("chumoku/core/state.js"), and the relative imports between modules are rewritten to these names.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from attention_maps.draw.labels import printable

STATIC = Path(__file__).resolve().parent.parent / "tensorboard" / "static"
PREFIX = "chumoku/"
"""Prefix of the bare names in the import map."""

RELATIVE = re.compile(r"""(\bfrom\s*|\bimport\s*\(?\s*)(["'])(\.\.?/[^"'\n]+)\2""")
"""`from "./x.js"` of import and export, `import "./x.js"` and `import("./x.js")`."""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; worker-src blob:; style-src 'unsafe-inline'; img-src data:"
    " blob:; font-src data:"
)
"""Content security policy: the page loads no external resources and makes no requests."""

START = f'import {{render}} from "{PREFIX}index.js"; render();'
"""The script that builds the page."""

PAGE = """<!doctype html><html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{style}
</style>
<script type="importmap">{imports}</script>
</head>
<body>
{elements}<script>if (!location.hash) location.hash = {hash}</script>
<script type="module">{start}</script>
</body>
</html>
"""


def page(
    title: str,
    archive: Mapping[str, Any] | None,
    state: Mapping[str, object],
    *,
    modules: Mapping[str, str] = {},
    elements: Mapping[str, str] = {},
    start: str = START,
) -> str:
    """Return the HTML of the page. archive: as from `page_data`; None if `start` reads it from one of the elements.
    state: initial UI state, with the keys of the tab's core/state.js. modules: further JavaScript modules by name.
    elements: texts without `<`, by the id of the element that contains them. start: the script that builds the page,
    which imports modules by `PREFIX` and name."""
    own = {path.relative_to(STATIC).as_posix(): path.read_text("utf-8") for path in sorted(STATIC.rglob("*.js"))}
    joined = own | dict(modules)
    imports = {PREFIX + name: _data_url(bundled(name, text, joined)) for name, text in joined.items()}
    content = dict(elements) if archive is None else {"chumoku-archive": _in_script(archive), **elements}
    hash_ = "#attention&" + urlencode({f"p.attention.{key}": value for key, value in state.items()})
    return PAGE.format(
        policy=POLICY,
        title=escape(printable(title)),
        style="\n".join(path.read_text("utf-8") for path in sorted(STATIC.glob("*.css"))),
        imports=_in_script({"imports": imports}),
        elements="".join(map(_element, content, content.values())),
        hash=_in_script(hash_),
        start=start,
    )


def bundled(name: str, text: str, modules: Mapping[str, str]) -> str:
    """Replace the relative imports of a module by bare names. Raises LookupError for a missing module."""

    def bare(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[3]))
        if target not in modules:
            raise LookupError(f"{name} imports {match[3]}, which is not there")
        return f"{match[1]}{match[2]}{PREFIX}{target}{match[2]}"

    return RELATIVE.sub(bare, text)


def _element(name: str, text: str) -> str:
    """Return an element that holds data: JSON in that of the archive, base64 in others."""
    kind = "application/json" if name == "chumoku-archive" else "text/plain"
    return f'<script type="{kind}" id="{name}">{text}</script>\n'


def _data_url(script: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(script.encode()).decode("ascii")


def _in_script(value: object) -> str:
    """JSON without `<`, so that it cannot end the <script> element around it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
