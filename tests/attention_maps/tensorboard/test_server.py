"""TensorBoard as a process, over HTTP."""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from attention_maps.files import store
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


def test_tensorboard_shows_the_tab(tensorboard: Serve, logdir: Path, complete: Recording) -> None:
    """Guards the tab in TensorBoard itself, with a path prefix and with the other way of loading events than the
    default, in which browser tests open it."""
    flags = "--path_prefix", "/some/static", "--load_fast", "false"
    check_the_tab(tensorboard("--logdir", str(logdir), *flags), complete)


@pytest.mark.parametrize(
    "command", [("-m", "tensorboard.main"), ("-m", "attention_maps.tensorboard")], ids=["installed", "module"]
)
def test_an_installed_project_has_the_tab_once(
    tensorboard: Serve, logdir: Path, complete: Recording, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Guards against a duplicate plugin: `tensorboard` finds the tab by its entry point."""
    installed = tmp_path / "site" / "chumoku-0.dist-info"  # stands before one that is really installed, and hides it
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: chumoku\nVersion: 0\n", encoding="utf-8")
    entry = "[tensorboard_plugins]\nattention = attention_maps.tensorboard.plugin:AttentionPlugin\n"
    (installed / "entry_points.txt").write_text(entry, encoding="utf-8")
    check_the_tab(tensorboard("--logdir", str(logdir), command=command, path=installed.parent), complete)


def test_named_log_folders_have_the_tab(tensorboard: Serve, logdir: Path) -> None:
    """Guards against an empty tab with `--logdir_spec`, with which TensorBoard passes no log directory to plugins."""
    spec = f"one:{logdir}/translator,two:{logdir}/sweep"
    index = get_json(tensorboard("--logdir_spec", spec), f"{PLUGIN}index")
    assert {name: run["steps"] for name, run in index["runs"].items()} == {"one": [0, 1000, 2000], "two/0": [7]}
    assert index["logdir"] == spec


def test_without_recordings_the_tab_is_inactive_and_still_opens(
    tensorboard: Serve, tmp_path: Path, lesson: Recording
) -> None:
    """Guards the page that explains how to record maps, and the appearance of the first recording."""
    address = tensorboard("--logdir", str(tmp_path))
    assert get_json(address, "data/plugins_listing")["attention"]["enabled"] is False
    assert get_json(address, f"{PLUGIN}index")["runs"] == {}
    assert get(address, "data/plugin_entry.html", name="attention")[0] == 200
    store.save(lesson, tmp_path)
    deadline = time.monotonic() + 60
    while not get_json(address, "data/plugins_listing")["attention"]["enabled"]:
        assert time.monotonic() < deadline, "the tab did not appear"
        time.sleep(0.1)
    assert get_json(address, f"{PLUGIN}index")["runs"] == {".": {"steps": [1000], "generated": []}}


def test_hostile_files_and_questions_leave_tensorboard_standing(
    tensorboard: Serve, logdir: Path, complete: Recording
) -> None:
    """Guards against an error that only the real server meets: odd bytes on the wire, odd methods, dropped
    connections."""
    chance = random.Random(1)
    whole = store.path(logdir / "translator", 0).read_bytes()
    broken = store.path(logdir / "translator", 3000)
    broken.write_bytes(whole)
    address = tensorboard("--logdir", str(logdir))
    where = {"run": "translator", "recording": "step_00003000"}
    for _ in range(60):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(10)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        broken.write_bytes(damaged)
        for route, more in (("meta", {}), ("tensor", {"sample": 0, "kind": "cross", "layer": 0}), ("curves", {})):
            status, headers, content = get(address, PLUGIN + route, **where, **more)
            assert status in (200, 422), content
            assert status == 200 or (headers.get_content_type() == "text/plain" and content)
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
    broken.write_bytes(whole)
    status, _, content = get(address, f"{PLUGIN}tensor", **where, sample=0, kind="cross", layer=0)
    assert (status, content) == (200, complete.samples[0].weights["cross", 0].tobytes())
