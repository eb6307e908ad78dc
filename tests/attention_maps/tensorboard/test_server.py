"""TensorBoard as a process, over HTTP."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from attention_maps.record.recording import Recording
from attention_maps.tensorboard.plugin import STATIC
from tests.attention_maps.tensorboard.conftest import Serve

PLUGIN = "data/plugin/attention/"


def get(address: str, route: str, **arguments: object) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Return status, headers and content of a response."""
    query = f"?{urlencode(arguments)}" if arguments else ""
    try:
        with urllib.request.urlopen(f"{address}{route}{query}", timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def get_json(address: str, route: str, **arguments: object) -> dict:
    """Return the content of a successful response."""
    status, _, content = get(address, route, **arguments)
    assert status == 200, content
    return json.loads(content)


def check_the_tab(address: str, complete: Recording) -> None:
    """Request everything that the page needs."""
    listed = get_json(address, "data/plugins_listing")["attention"]
    assert listed["enabled"] is True
    assert listed["tab_name"] == "Attention"
    assert listed["loading_mechanism"]["type"] == "IFRAME"
    assert listed["loading_mechanism"]["module_path"].endswith("/data/plugin/attention/static/index.js")

    status, headers, page = get(address, "data/plugin_entry.html", name="attention")
    assert (status, headers.get_content_type()) == (200, "text/html")
    assert b'<base href="plugin/attention/" />' in page
    assert b'import("./static/index.js")' in page
    for path in STATIC.rglob("*.*"):
        status, headers, content = get(address, f"{PLUGIN}static/{path.relative_to(STATIC).as_posix()}")
        assert (status, content) == (200, path.read_bytes())
        assert headers.get_content_type() == {".js": "text/javascript", ".css": "text/css"}[path.suffix]

    index = get_json(address, f"{PLUGIN}index")
    assert index["runs"]["translator"] == {"steps": [0, 1000, 2000], "generated": [1, 2]}
    where = {"run": "translator", "recording": "step_00002000"}
    meta = get_json(address, f"{PLUGIN}meta", **where)
    assert meta["step"] == 2000
    assert meta["samples"][0]["source"]["pieces"] == ["いいえ", "勝つ", "さ"]
    for (kind, layer), weights in complete.samples[0].weights.items():
        status, headers, content = get(
            address, f"{PLUGIN}tensor", **where, sample=0, kind=kind, layer=layer, what="weights"
        )
        assert (status, content) == (200, weights.tobytes())
        assert (headers["X-Shape"], headers["X-Dtype"]) == (",".join(map(str, weights.shape)), "F16")
    assert get_json(address, f"{PLUGIN}curves", run="translator")["steps"] == [0, 1000, 2000]
    status, headers, content = get(address, f"{PLUGIN}meta", run="../translator", recording="step_00002000")
    assert (status, headers.get_content_type()) == (404, "text/plain")
    assert content == b"there is no run '../translator' with recorded attention"


@pytest.mark.parametrize(
    "command", [("-m", "tensorboard.main"), ("-m", "attention_maps.tensorboard")], ids=["installed", "module"]
)
def test_an_installed_project_has_the_tab_once(
    tensorboard: Serve, logdir: Path, complete: Recording, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Guards the tab in TensorBoard itself, with a path prefix and with the other way of loading events than the
    default, in which browser tests open it; and against a duplicate plugin: `tensorboard` finds the tab by its entry
    point."""
    installed = tmp_path / "site" / "chumoku-0.dist-info"  # stands before one that is really installed, and hides it
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: chumoku\nVersion: 0\n", encoding="utf-8")
    entry = "[tensorboard_plugins]\nattention = attention_maps.tensorboard.plugin:AttentionPlugin\n"
    (installed / "entry_points.txt").write_text(entry, encoding="utf-8")
    flags = ("--path_prefix", "/some/static", "--load_fast", "false")
    check_the_tab(tensorboard("--logdir", str(logdir), *flags, command=command, path=installed.parent), complete)


def test_hostile_requests_leave_tensorboard_standing(tensorboard: Serve, logdir: Path, complete: Recording) -> None:
    """Guards against an error that only the real server meets: odd bytes on the wire, odd methods, dropped
    connections."""
    address = tensorboard("--logdir", str(logdir))
    prefix = f"/{PLUGIN}"
    lines = [
        f"GET {prefix}meta?run=%00&recording=%ff HTTP/1.1",
        f"GET {prefix}static/..%2f..%2fplugin.py HTTP/1.1",
        f"GET {prefix}static/../../plugin.py HTTP/1.1",
        f"POST {prefix}index HTTP/1.1",
        f"ODD {prefix}index HTTP/1.1",
        f"GET {prefix}meta?run=\xff\xfe HTTP/1.1",
        f"GET {prefix}tensor?{'&'.join(['run=x'] * 5000)} HTTP/1.1",
        f"GET {prefix}static/ HTTP/1.1",
        f"GET {prefix}static HTTP/1.1",
        f"GET {prefix} HTTP/1.1",
        f"HEAD {prefix}meta HTTP/1.1",
    ]
    for line in lines:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        connection.connect()
        connection.sock.sendall(f"{line}\r\nHost: x\r\n\r\n".encode("latin-1"))
        answer = http.client.HTTPResponse(connection.sock, method=line.partition(" ")[0])
        answer.begin()
        assert 400 <= answer.status < 500, line
        assert answer.headers.get_content_type() == "text/plain"
        connection.close()
    for _ in range(5):  # leaves before the answer
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        connection.request("GET", f"{prefix}curves?run=translator")
        connection.close()
    where = {"run": "translator", "recording": "step_00000000"}
    status, _, content = get(address, f"{PLUGIN}tensor", **where, sample=0, kind="cross", layer=0)
    assert (status, content) == (200, complete.samples[0].weights["cross", 0].tobytes())
