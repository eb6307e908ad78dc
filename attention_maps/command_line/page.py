"""Build the Attention tab as one self-contained HTML file with its script, style sheets and recordings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from attention_maps.command_line.modules import joined, modules_in
from attention_maps.draw.labels import printable

STATIC = Path(__file__).resolve().parent.parent / "tensorboard" / "static"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:;"
    " font-src data:"
)
"""Content security policy: the page loads no external resources and makes no requests."""

START = "import {render} from './index.js';\nrender();\n"
"""The module that builds the page."""

ENDS = re.compile(r"<!--|</?script", re.IGNORECASE)
"""What would end a `<script>` element, or change where it ends."""

PAGE = """<!doctype html><html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
{elements}<script>if (!location.hash) location.hash = {hash}</script>
<script type="module">
{script}</script>
</body>
</html>
"""


def page(
    title: str,
    archive: Mapping[str, Any] | None,
    state: Mapping[str, object],
    *,
    modules: Mapping[str, str] = {},
    elements: Mapping[str, object] = {},
    start: str = START,
) -> str:
    """Return the HTML of the page. archive: as from `page_data`; None if `start` reads it from the elements. state:
    initial UI state, with the keys of the tab's core/state.js. modules: further JavaScript modules, by their paths
    beside those of the tab. elements: data by the id of its element, as JSON or, if it is a text, without `<`. start:
    the module that builds the page. Raises ValueError if it cannot be joined with the modules that it imports."""
    script = joined("start.js", {**modules_in(STATIC), **modules, "start.js": start})
    if found := ENDS.search(script):
        raise ValueError(f"a module contains {found[0]}, which has a meaning in HTML")
    content = dict(elements) if archive is None else {"chumoku-archive": archive, **elements}
    hash_ = "#attention&" + urlencode({f"p.attention.{key}": value for key, value in state.items()})
    return PAGE.format(
        policy=POLICY,
        title=escape(printable(title)),
        style="\n".join(path.read_text("utf-8") for path in sorted(STATIC.glob("*.css"))),
        elements="".join(map(_element, content, content.values())),
        hash=_in_script(hash_),
        script=script,
    )


def _element(name: str, content: object) -> str:
    """Return an element that holds data: a text as it is, anything else as JSON."""
    kind, text = ("text/plain", content) if isinstance(content, str) else ("application/json", _in_script(content))
    return f'<script type="{kind}" id="{name}">{text}</script>\n'


def _in_script(value: object) -> str:
    """JSON without `<`, so that it cannot end the <script> element around it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
