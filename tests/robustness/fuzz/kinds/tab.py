"""Requests to the tab: every route with hostile parameters, paths and methods."""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from hypothesis import strategies as st
from tensorboard.backend.application import TensorBoardWSGI
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from attention_maps.tensorboard.plugin import AttentionPlugin
from tests.robustness.fuzz import trained
from tests.robustness.fuzz.values import PATHS, SCRIPTS

make_ready = trained.make

logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it logs a path that it does not know in full


class Tab:
    """The plugin behind TensorBoard's routing, in this process."""

    def __init__(self, logdir: str) -> None:
        flags = argparse.Namespace(logdir_spec=None)
        self.client = Client(TensorBoardWSGI([AttentionPlugin(TBContext(logdir=logdir, flags=flags))]))

    def ask(self, route: str, arguments: dict[str, str], method: str = "GET", quoted: bool = True) -> int:
        """Send one request, and check that the response is data, or one sentence with a code of the client's error."""
        query = urlencode(arguments, errors="replace") if quoted else "&".join(f"{a}={b}" for a, b in arguments.items())
        latin = query.encode("utf-8", "surrogatepass").decode("latin-1")  # as a server passes bytes on
        path = f"/data/plugin/attention/{route}".encode("utf-8", "surrogatepass").decode("latin-1")
        answer = self.client.open("/", method=method, environ_overrides={"QUERY_STRING": latin, "PATH_INFO": path})
        assert answer.status_code in (200, 400, 404, 405, 422), (answer.status_code, answer.text)
        assert b"root:" not in answer.data, "a file outside the log directory"
        assert "evil" not in str(answer.headers), "a header from the request"
        if answer.status_code != 200 and answer.mimetype == "text/plain" and method != "HEAD":
            assert answer.text.count("\n") == 0
        if answer.status_code == 200:
            assert answer.headers.get("X-Content-Type-Options") == "nosniff" or answer.mimetype != "text/html"
        return answer.status_code


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    route: str
    arguments: tuple[tuple[str, str], ...]
    quoted: bool

    def prepare(self, folder: Path) -> None:
        """Link the runs, and put files and links beside them that must not be served."""
        (folder / "runs").symlink_to(trained.home() / "runs")

    def act(self) -> None:
        """Send the request."""
        Tab("runs").ask(self.route, dict(self.arguments), self.method, self.quoted)


RIGHT = {
    "run": "translate",
    "recording": "step_00000004",
    "sample": "0",
    "kind": "cross",
    "layer": "0",
    "what": "weights",
}
ROUTES = (
    *("index", "meta", "tensor", "curves"),
    *("static/index.js", "static/../plugin.py", "static//etc/passwd", "static/", "", "x"),
)
HOSTILE = (
    *(*PATHS, *SCRIPTS, "translate\0", "\r\nX: evil", "9" * 5000),
    *"""translate/../gpt step_00000002 generated_00001 step_4 -1 0x1 1e3 ٣ ² __proto__ %2e%2e%2f %00 % weights norms
    values rollout encoder decoder .""".split(),
)


@st.composite
def cases(draw: st.DrawFn) -> Request:
    """Return requests with right arguments, some of which are changed, missing or renamed."""
    arguments = dict(RIGHT)
    value = st.sampled_from(HOSTILE) | st.text(max_size=20)
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(tuple(RIGHT)) | value)
        if draw(st.integers(0, 4)) == 0:
            arguments.pop(name, None)
        else:
            arguments[name] = draw(value)
    route = draw(st.sampled_from(ROUTES + ROUTES[:4] * 5) | value.map("static/{}".format) | value)
    method = draw(st.sampled_from(("GET",) * 9 + ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "X")))
    return Request(method, route, tuple(arguments.items()), draw(st.booleans()))
