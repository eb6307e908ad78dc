"""The plugin's routes below `data/plugin/attention/`, and the page's own files.

Importing this module must never fail and pull in nothing heavy: TensorBoard loads it, without a safety net, for
everybody in whose environment the project is installed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorboard.backend.http_util import Respond
from tensorboard.plugins import base_plugin
from werkzeug.wrappers import Request, Response

from attention_maps.files.errors import NotThere, Refusal
from attention_maps.files.recording_checks import AXES, KINDS
from attention_maps.tensorboard.recording_reader import RecordingReader
from attention_maps.tensorboard.runs import Runs, roots

STATIC = Path(__file__).parent / "static"
CONTENT_TYPES = {".js": "text/javascript", ".css": "text/css"}

Answer = Callable[[Request], Response]

logger = logging.getLogger("tensorboard")


class AttentionPlugin(base_plugin.TBPlugin):
    """Serves recorded attention to the page in `static/`. Answers are JSON or bytes; refusals are one sentence."""

    plugin_name = "attention"

    def __init__(self, context: base_plugin.TBContext) -> None:
        """`context`: TensorBoard's flags and log folder; nothing is read yet."""
        spec = getattr(context.flags, "logdir_spec", None)
        self._logdir = context.logdir or spec or ""
        self._runs = Runs(roots(context.logdir, spec))
        self._recordings = RecordingReader()

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """The name of the tab and the page's first module."""
        return base_plugin.FrontendMetadata(es_module_path="/static/index.js", tab_name="Attention")

    def is_active(self) -> bool:
        """Whether there is anything to show; otherwise the tab is listed among the inactive ones."""
        return bool(self._runs.find())

    def get_plugin_apps(self) -> dict[str, Callable]:
        """The routes; each method documents its arguments."""
        return {
            "/static/*": _application(_static),
            "/index": _application(self._index),
            "/meta": _application(self._meta),
            "/tensor": _application(self._tensor),
            "/curves": _application(self._curves),
        }

    def _index(self, request: Request) -> Response:
        """All runs with their recordings, in ascending order."""
        runs = {
            name: {"steps": list(run.steps), "generated": list(run.generated)}
            for name, run in self._runs.find().items()
        }
        return _json(request, {"runs": runs, "logdir": self._logdir})

    def _meta(self, request: Request) -> Response:
        """`run`, `recording`: all about a recording but its tensors."""
        run, recording = _argument(request, "run"), _argument(request, "recording")
        meta = self._recordings.meta(self._runs.run(run).path(recording))
        return _json(request, {"run": run, "recording": recording} | meta)

    def _tensor(self, request: Request) -> Response:
        """`run`, `recording`, `sample`, `kind`, `what` (weights if missing) and, but for the rollout,
        `layer`: bytes."""
        path = self._runs.run(_argument(request, "run")).path(_argument(request, "recording"))
        what = _choice(request, "what", tuple(AXES), "weights")
        sample, kind = _number(request, "sample"), _choice(request, "kind", KINDS)
        layer = 0 if what == "rollout" else _number(request, "layer")
        tensor, content = self._recordings.tensor(path, sample, kind, layer, what)
        headers = [("X-Shape", ",".join(map(str, tensor.shape))), ("X-Dtype", tensor.dtype)]
        return Respond(request, content, "application/octet-stream", headers=headers)

    def _curves(self, request: Request) -> Response:
        """`run`: the measures of every head at every step."""
        return _json(request, self._recordings.curves(self._runs.run(_argument(request, "run")).steps))


def _static(request: Request) -> Response:
    """A file of the page, looked up among those that exist: no path is ever built from the request."""
    name = request.path.partition("/static/")[2]
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*")}
    if name not in files or files[name].suffix not in CONTENT_TYPES:
        raise NotThere(f"'{name}' is no file of this page")
    # Respond forbids keeping it, so that a change shows at the next reload of the page.
    return Respond(request, files[name].read_bytes(), CONTENT_TYPES[files[name].suffix])


def _application(answer: Answer) -> Callable:
    """A WSGI application that never raises: it answers errors in one sentence, and logs unexpected ones."""

    @Request.application
    def application(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _refusal(request, "this can only be read, with GET", 405, [("Allow", "GET, HEAD")])
        try:
            return answer(request)
        except Refusal as refusal:
            return _refusal(request, str(refusal), refusal.code)
        except Exception:
            logger.exception("Attention tab: no answer to %r", request.path)
            return _refusal(request, "the Attention tab failed; TensorBoard's log says where", 500)

    return application


def _refusal(request: Request, sentence: str, code: int, headers: list[tuple[str, str]] | None = None) -> Response:
    line = " ".join(sentence.split())
    line = line if len(line) <= 400 else f"{line[:200]} … {line[-200:]}"
    return Respond(request, line.encode("utf-8", "replace"), "text/plain", code=code, headers=headers)


def _json(request: Request, content: Any) -> Response:
    return Respond(request, json.dumps(content, separators=(",", ":"), allow_nan=False), "application/json")


def _argument(request: Request, name: str, default: str | None = None) -> str:
    try:
        value = request.args.get(name, default)
    except UnicodeDecodeError as error:
        raise Refusal("the address is no UTF-8") from error
    if value is None:
        raise Refusal(f"the argument '{name}' is missing")
    return value


def _number(request: Request, name: str) -> int:
    value = _argument(request, name)
    if not (value.isascii() and value.isdecimal() and len(value) <= 5):
        raise Refusal(f"'{name}' must be a whole number from 0 to 99999, not '{value}'")
    return int(value)


def _choice(request: Request, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
    value = _argument(request, name, default)
    if value not in choices:
        raise Refusal(f"'{name}' must be one of {', '.join(choices)}, not '{value}'")
    return value
