"""Serve the routes below `data/plugin/attention/` and the static files of the page.

Importing this module must be cheap and never fail: TensorBoard loads it, without catching exceptions, in every
environment in which the project is installed.
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
from attention_maps.files.file_names import ASKED
from attention_maps.files.recording_checks import AXES, KINDS, READOUTS
from attention_maps.tensorboard.questions import Questions, both_directions, checkpoints
from attention_maps.tensorboard.recording_reader import RecordingReader
from attention_maps.tensorboard.request_checks import check_asker, posted_json
from attention_maps.tensorboard.runs import Runs, newest, roots
from attention_maps.tensorboard.token_pairs import Pair, pair_weights, parse_positions

STATIC = Path(__file__).parent / "static"
CONTENT_TYPES = {".js": "text/javascript", ".css": "text/css"}

Answer = Callable[[Request], Response]

logger = logging.getLogger("tensorboard")


class AttentionPlugin(base_plugin.TBPlugin):
    """Serves recorded attention to the page in `static/`. Responses are JSON or bytes; errors are one sentence."""

    plugin_name = "attention"

    def __init__(self, context: base_plugin.TBContext) -> None:
        """`context`: flags and log directory of TensorBoard; no file is read yet."""
        spec = getattr(context.flags, "logdir_spec", None)
        self._logdir = context.logdir or spec or ""
        self._runs = Runs(roots(context.logdir, spec))
        self._recordings = RecordingReader()
        self._host = getattr(context.flags, "host", None)
        self.questions = Questions()

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Name of the tab and entry module of the page."""
        return base_plugin.FrontendMetadata(es_module_path="/static/index.js", tab_name="Attention")

    def is_active(self) -> bool:
        """Whether there are recordings; if not, TensorBoard lists the tab as inactive."""
        return bool(self._runs.find())

    def get_plugin_apps(self) -> dict[str, Callable]:
        """Request handlers by route; each handler documents its arguments."""
        gets = {
            "/index": self._index,
            "/meta": self._meta,
            "/tensor": self._tensor,
            "/curves": self._curves,
            "/pair": self._pair,
            "/checkpoints": self._checkpoints,
            "/answer": self._answer,
        }
        posts = {"/ask": self._ask, "/clear": self._clear, "/effects": self._effects, "/circuits": self._circuits}
        return {
            "/static/*": _application(_static),  # so that the page can say why the rest is refused
            **{route: _application(self._own(answer)) for route, answer in gets.items()},
            **{route: _application(self._own(answer), ("POST",)) for route, answer in posts.items()},
        }

    def _own(self, answer: Answer) -> Answer:
        """Return a handler that answers only TensorBoard's own page, under a name of this machine."""

        def checked(request: Request) -> Response:
            check_asker(request, self._host)
            return answer(request)

        return checked

    def _index(self, request: Request) -> Response:
        """List all runs with their recordings, in ascending order, and name the run that recorded last."""
        by_name = self._runs.find()
        runs = {
            name: {"steps": list(run.steps), "generated": list(run.generated)}
            | ({"asked": asked} if (asked := self.questions.listed(name)) else {})
            for name, run in by_name.items()
        }
        return _json(request, {"runs": runs, "newest": newest(by_name), "logdir": self._logdir})

    def _meta(self, request: Request) -> Response:
        """Return everything but the tensors of a recording. Arguments: `run`, `recording`."""
        run, recording = _argument(request, "run"), _argument(request, "recording")
        meta = self._recordings.meta(self._path(run, recording))
        return _json(request, {"run": run, "recording": recording} | meta)

    def _tensor(self, request: Request) -> Response:
        """Return the bytes of a tensor. Arguments: `run`, `recording`, `sample`, `what` (default: weights); except for
        attribution and logits also `kind`, and except for the rollout `layer`."""
        path = self._path(_argument(request, "run"), _argument(request, "recording"))
        what = _choice(request, "what", tuple(AXES), "weights")
        sample = _number(request, "sample")
        kind = "" if what in READOUTS else _choice(request, "kind", KINDS)
        layer = 0 if what == "rollout" or what in READOUTS else _number(request, "layer")
        tensor, content = self._recordings.tensor(path, sample, kind, layer, what)
        headers = [("X-Shape", ",".join(map(str, tensor.shape))), ("X-Dtype", tensor.dtype)]
        return Respond(request, content, "application/octet-stream", headers=headers)

    def _curves(self, request: Request) -> Response:
        """Return the measures of every head at every step. Arguments: `run`."""
        return _json(request, self._recordings.curves(self._runs.run(_argument(request, "run")).steps))

    def _pair(self, request: Request) -> Response:
        """Return the weights between two words in every head at every step. Arguments: `run`, `recording`, `sample`,
        `kind`, the positions `query` and `key`, such as 3 or 3-5, and `values`: true or false (default)."""
        name, recording = _argument(request, "run"), _argument(request, "recording")
        query, key = (parse_positions(side, _argument(request, side)) for side in ("query", "key"))
        values = _choice(request, "values", ("true", "false"), "false") == "true"
        pair = Pair(_number(request, "sample"), _choice(request, "kind", KINDS), query, key, values)
        return _json(request, pair_weights(self._runs.run(name).steps, self._path(name, recording), pair))

    def _checkpoints(self, request: Request) -> Response:
        """List the kept checkpoints of a run, and whether it translates in both directions. Arguments: `run`."""
        folder = self._runs.run(_argument(request, "run")).folder
        return _json(request, {"checkpoints": checkpoints(folder), "both_directions": both_directions(folder)})

    def _ask(self, request: Request) -> Response:
        """Answer a question about a run, {run, after, text, …}: see `Questions.ask` and `tab_answers/question.py`."""
        run, question = self._question(request)
        return _json(request, self.questions.ask(run, self._runs.run(run).folder, question))

    def _clear(self, request: Request) -> Response:
        """Forget the answers of a run, {run}."""
        run, _ = self._question(request)
        if not self.questions.listed(run):  # those of a deleted run may still be forgotten
            self._runs.run(run)
        self.questions.clear(run)
        return _json(request, {})

    def _effects(self, request: Request) -> Response:
        """Answer what each head alone does to the predictions of an answered text, {run, recording, how}."""
        run, question = self._question(request)
        return _json(request, self.questions.effects(run, self._runs.run(run).folder, question))

    def _circuits(self, request: Request) -> Response:
        """Answer what the weights of a head say about tokens, {run, circuit: [kind, layer, head], …}."""
        run, question = self._question(request)
        return _json(request, self.questions.circuits(self._runs.run(run).folder, question))

    def _answer(self, request: Request) -> Response:
        """Return an earlier answer. Arguments: `run`, `recording`."""
        return _json(request, self.questions.answer(_argument(request, "run"), _argument(request, "recording")))

    def _question(self, request: Request) -> tuple[str, dict[str, Any]]:
        """Return a posted question and the name of its run."""
        question = posted_json(request)
        run = question.get("run")
        if not isinstance(run, str):
            raise Refusal("'run' must be the name of a run")
        return run, question

    def _path(self, run: str, recording: str) -> str:
        return (self.questions if ASKED.fullmatch(recording) else self._runs).path(run, recording)


def _static(request: Request) -> Response:
    """Return a static file, looked up in a listing: paths are never built from the request."""
    name = request.path.partition("/static/")[2]
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*")}
    if name not in files or files[name].suffix not in CONTENT_TYPES:
        raise NotThere(f"'{name}' is not a file of this page")
    # Respond disables caching, so that changes appear when the page is reloaded.
    return Respond(request, files[name].read_bytes(), CONTENT_TYPES[files[name].suffix])


def _application(answer: Answer, methods: tuple[str, ...] = ("GET", "HEAD")) -> Callable:
    """A WSGI application that never raises: it responds to errors with one sentence and logs unexpected ones."""

    @Request.application
    def application(request: Request) -> Response:
        if request.method not in methods:
            sentence = f"only {' and '.join(methods)} {'is' if len(methods) == 1 else 'are'} allowed"
            return _refusal(request, sentence, 405, [("Allow", ", ".join(methods))])
        try:
            return answer(request)
        except Refusal as refusal:
            return _refusal(request, str(refusal), refusal.code)
        except Exception:
            logger.exception("Attention tab: request %r failed", request.path)
            return _refusal(request, "the Attention tab failed; see TensorBoard's log", 500)

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
        raise Refusal("the URL is not UTF-8") from error
    if value is None:
        raise Refusal(f"the argument '{name}' is missing")
    return value


def _number(request: Request, name: str) -> int:
    value = _argument(request, name)
    if not (value.isascii() and value.isdecimal() and len(value) <= 5):
        raise Refusal(f"'{name}' must be an integer from 0 to 99999, not '{value}'")
    return int(value)


def _choice(request: Request, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
    value = _argument(request, name, default)
    if value not in choices:
        raise Refusal(f"'{name}' must be one of {', '.join(choices)}, not '{value}'")
    return value
