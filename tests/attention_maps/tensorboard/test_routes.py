"""Responses of the routes, through TensorBoard's routing."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from attention_maps.files import store
from attention_maps.record.recording import Recording
from attention_maps.tensorboard import plugin, token_pairs
from tests.attention_maps.tensorboard.conftest import Tab


def test_the_index_lists_runs_with_their_recordings_in_order(tab: type[Tab], logdir: Path) -> None:
    """Guards against unsorted steps, other run names than in the Scalars tab, and a first page of a run that has long
    ended."""
    os.utime(store.path(logdir / "sweep" / "0", 7), (2e9, 2e9))
    assert tab(logdir).json("index") == {
        "runs": {
            "sweep/0": {"steps": [7], "generated": []},
            "translator": {"steps": [0, 1000, 2000], "generated": [1, 2]},
        },
        "newest": "sweep/0",
        "logdir": str(logdir),
    }


def test_meta_returns_every_recorded_field(tab: type[Tab], logdir: Path, complete: Recording) -> None:
    """Guards every field that the page shows, including Japanese pieces and NaN (null)."""
    meta = tab(logdir).json("meta", run="translator", recording="step_00001000")
    assert (meta["run"], meta["recording"], meta["step"]) == ("translator", "step_00001000", 1000)
    (sample,) = meta["samples"]
    assert sample["source"]["pieces"] == ["いいえ", "勝つ", "さ"]
    assert sample["reads"] == {"ids": [2, 5, 6, 7], "pieces": ["nah", "I", "d", "win"], "special": [1, 0, 0, 0]}
    assert sample["predicts"]["pieces"] == ["I", "d", "win", "</s>"]
    assert sample["losses"] == [1.5, 0.25, 0.5, 0.75]
    assert sample["predictions"][0] == [[5, "I", 0.5], [6, "d", 0.25]]
    assert (sample["name"], sample["length"], sample["source_length"], sample["truncated"]) == ("probe 1", 4, 3, False)
    assert sample["links"] == [[0, 0], [1, 2], [2, 2]]
    assert sample["antecedents"] == {"side": "reads", "pairs": [[2, 3, 0, 2]], "mentions": []}
    assert meta["kinds"] == {kind: {"layers": 2, "heads": 2} for kind in ("encoder", "decoder", "cross")}
    assert meta["measures"]["entropy"]["cross"] == [[0.25, 0.5], [1.0, None]]
    assert meta["labels"] == complete.labels
    best = {"measure": "alignment_error", "name": "best head", "value": 20.5, "kind": "cross", "layer": 0, "head": 0}
    best |= {"rows": "predicts", "count": 40}
    assert meta["scores"][0] == best
    assert meta["scores"][1]["kind"] is None


@pytest.mark.parametrize("what", ["weights", "norms", "values", "rollout"])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_tensor_route_returns_the_recorded_bytes(
    tab: type[Tab], logdir: Path, complete: Recording, what: str, kind: str
) -> None:
    """Guards against a wrong offset, which selects another head's map, and a swapped shape."""
    server = tab(logdir)
    sample = complete.samples[0]
    for layer in range(2):
        where = {"run": "translator", "recording": "generated_00002", "sample": 0, "kind": kind}
        where |= {} if what == "weights" else {"what": what}  # the default
        if what == "rollout" and kind == "cross":
            assert "no tensor 0/cross/rollout" in server.refused(404, "tensor", **where)
            continue
        answer = server.get("tensor", **where, layer=layer)
        stored = sample.rollout[kind] if what == "rollout" else getattr(sample, what)[kind, layer]
        assert (answer.status_code, answer.mimetype) == (200, "application/octet-stream")
        assert answer.headers["X-Dtype"] == "F16"
        assert answer.headers["X-Shape"] == ",".join(map(str, stored.shape))
        assert answer.data == stored.astype("<f2").tobytes()


def test_curves_have_a_matrix_for_every_step(tab: type[Tab], logdir: Path, complete: Recording) -> None:
    """Guards curves against a step without measures, and against a damaged file, which must not take the
    others away."""
    run = logdir / "translator"
    store.save(replace(complete, step=3000, measures={}), run)
    store.path(run, 4000).write_bytes(b"half a file")
    cross = [[20.5, 80.0], [50.0, 50.0]]
    server = tab(logdir)
    for _ in range(2):  # the second time from memory
        curves = server.json("curves", run="translator")
        assert curves["steps"] == [0, 1000, 2000, 3000]
        assert curves["unreadable"] == [4000]
        assert curves["counts"] == {"alignment_error": 40}
        assert curves["baselines"] == {"alignment_error": {"diagonal": 70.0}}
        assert curves["measures"]["alignment_error"] == {"cross": [cross, cross, cross, None]}
        entropy = [[0.25, 0.5], [1.0, None]]  # of every kind
        assert curves["measures"]["entropy"] == {
            kind: [*[entropy] * 3, None] for kind in ("encoder", "decoder", "cross")
        }


def test_curves_follow_a_recording_that_is_replaced(tab: type[Tab], logdir: Path, complete: Recording) -> None:
    """Guards against cached measures of a step that is recorded again after a resume."""
    server = tab(logdir)
    assert server.json("curves", run="translator")["measures"]["alignment_error"]["cross"][0][0] == [20.5, 80.0]
    measures = {"alignment_error": {"cross": [[10.5, 80.0], [50.0, 50.0]]}}
    store.save(replace(complete, step=0, measures=complete.measures | measures), logdir / "translator")
    assert server.json("curves", run="translator")["measures"]["alignment_error"]["cross"][0][0] == [10.5, 80.0]


def test_memory_for_curves_is_bounded(tab: type[Tab], logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an unbounded cache, and responses that depend on the cache."""
    monkeypatch.setattr("attention_maps.tensorboard.recording_reader.REMEMBERED", 1)
    server = tab(logdir)
    first = server.json("curves", run="translator")
    assert len(server.plugin._recordings._measures) == 1
    assert server.json("curves", run="translator") == first


def test_the_weights_between_two_words_come_from_every_step(tab: type[Tab], logdir: Path, complete: Recording) -> None:
    """Guards the pair view: sums over keys, means over queries, and steps that show another text or are damaged."""
    run = logdir / "translator"
    sample = complete.samples[0]
    other = replace(sample, reads=replace(sample.reads, ids=tuple(token + 1 for token in sample.reads.ids)))
    store.save(replace(complete, step=3000, samples=(other, *complete.samples[1:])), run)
    store.path(run, 4000).write_bytes(b"half a file")
    server = tab(logdir)
    where = {"run": "translator", "recording": "step_00001000", "sample": 0, "kind": "cross"}
    for query, key in (([1], [0]), ([0, 1], [0, 2])):  # two mentions of a noun, not the word between them
        places = {"query": ",".join(map(str, query)), "key": ",".join(map(str, key))}
        for _ in range(2):  # the second time, the tokens are known
            pair = server.json("pair", **where, **places)
            assert pair["steps"] == [0, 1000, 2000]
        for layer in range(2):
            weights = sample.weights["cross", layer].astype(float)[:, query][:, :, key]
            assert pair["weights"][1][layer] == pytest.approx(weights.sum(axis=2).mean(axis=1), abs=1e-4)
    values = sample.values["cross", 1].astype(float)
    weighted = sample.weights["cross", 1].astype(float) * values[:, None]
    weighted /= weighted.sum(axis=2, keepdims=True)
    pair = server.json("pair", **where, query="0,1", key="1,2", values="true")
    expected = weighted[:, 0:2][:, :, 1:3].sum(axis=2).mean(axis=1)
    assert pair["chosen"][1] == pytest.approx(expected, abs=1e-4)
    assert "no position 99, 0" in server.refused(404, "pair", **where, query="99", key="0")
    assert "'values' must be" in server.refused(400, "pair", **where, query="0", key="0", values="1")
    assert "such as 3,4,9" in server.refused(400, "pair", **where, query="2-1", key="0")
    assert "at most 512" in server.refused(400, "pair", **where, query=",".join(map(str, range(513))), key="0")
    assert "no sample 7" in server.refused(404, "pair", **where | {"sample": 7}, query="0", key="0")


def test_work_of_a_pair_request_is_bounded(
    tab: type[Tab], logdir: Path, complete: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against one request that keeps the server busy for minutes: all tokens, all heads, all steps."""
    shape = complete.samples[0].weights["cross", 0].shape
    count = 2 * shape[0] * shape[2] * 2  # layers, heads, keys, queries
    where = {
        "run": "translator",
        "recording": "step_00001000",
        "sample": 0,
        "kind": "cross",
        "query": "0,1",
        "key": "0",
    }
    assert tab(logdir).json("pair", **where)["steps"] == [0, 1000, 2000]
    monkeypatch.setattr(token_pairs, "MOST_WEIGHTS", 2 * count)
    assert tab(logdir).json("pair", **where)["steps"] == [0, 2000]
    monkeypatch.setattr(token_pairs, "MOST_WEIGHTS", count - 1)
    assert f"reads {count:,} weights, more than the limit" in tab(logdir).refused(400, "pair", **where)


def test_the_page_is_served_with_its_types_and_never_kept(tab: type[Tab], tmp_path: Path) -> None:
    """Guards against modules that the browser rejects for their content type, or keeps in its cache after an edit."""
    server = tab(tmp_path)
    files = [path for path in plugin.STATIC.rglob("*") if path.is_file()]
    assert files
    for path in files:
        answer = server.get(f"static/{path.relative_to(plugin.STATIC).as_posix()}")
        assert answer.status_code == 200, path
        assert answer.mimetype == {".js": "text/javascript", ".css": "text/css"}[path.suffix]
        assert answer.data == path.read_bytes()
        assert "no-cache" in answer.headers["Cache-Control"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "absent.js",
        "views",
        "views/",
        "../plugin.py",
        "views/map",
        "views/../../plugin.py",
        "views/map/../../../plugin.py",
        "/etc/passwd",
        "%2e%2e/plugin.py",
        "..%2fplugin.py",
        "views/../index.js",
        "./index.js",
        "\\..\\plugin.py",
        "index.js%00",
        "INDEX.JS",
    ],
)
def test_only_static_files_of_the_page_are_served(tab: type[Tab], tmp_path: Path, name: str) -> None:
    """Guards against access to other files."""
    answer = tab(tmp_path).client.get(f"/data/plugin/attention/static/{name}")
    assert (answer.status_code, answer.mimetype) == (404, "text/plain")
    assert "class AttentionPlugin" not in answer.text


@pytest.mark.parametrize(
    ("route", "arguments", "code", "reason"),
    [
        ("meta", {}, 400, "argument 'run' is missing"),
        ("meta", {"run": "translator"}, 400, "argument 'recording' is missing"),
        ("meta", {"run": "nobody", "recording": "step_00000000"}, 404, "no run 'nobody'"),
        ("meta", {"run": "../translator", "recording": "step_00000000"}, 404, "no run '../translator'"),
        ("meta", {"run": "translator", "recording": "step_00000009"}, 404, "no recording 'step_00000009'"),
        ("meta", {"run": "translator", "recording": "step_0"}, 404, "'step_0' is not a recording name"),
        ("meta", {"run": "translator", "recording": "../attention/step_00000000"}, 404, "is not a recording name"),
        ("meta", {"run": "translator", "recording": "step_٠٠٠٠٠٠٠٠"}, 404, "is not a recording name"),
        ("curves", {}, 400, "argument 'run' is missing"),
        ("curves", {"run": "."}, 404, "no run '.'"),
        ("tensor", {"kind": "self"}, 400, "'kind' must be one of encoder, decoder, cross, not 'self'"),
        ("tensor", {"kind": None}, 400, "argument 'kind' is missing"),
        ("tensor", {"what": "gradients"}, 400, "'what' must be one of weights, norms, values, rollout"),
        ("tensor", {"sample": 1}, 404, "no tensor 1/cross/0"),
        ("tensor", {"sample": "-1"}, 400, "'sample' must be an integer"),
        ("tensor", {"layer": 2}, 404, "no tensor 0/cross/2"),
        ("tensor", {"layer": None}, 400, "argument 'layer' is missing"),
        ("tensor", {"layer": "1_0"}, 400, "'layer' must be an integer"),
        ("tensor", {"layer": "9" * 400}, 400, "…"),
    ],
)
def test_a_wrong_request_gets_the_reason(
    tab: type[Tab], logdir: Path, route: str, arguments: dict, code: int, reason: str
) -> None:
    """Guards against an uninformative error page, and responses to a different request."""
    if route == "tensor":
        whole = {"run": "translator", "recording": "step_00000000", "sample": 0, "kind": "cross", "layer": 0}
        arguments = {name: value for name, value in (whole | arguments).items() if value is not None}
    assert reason in tab(logdir).refused(code, route, **arguments)


def test_a_recording_that_vanishes_after_the_listing_gets_a_404(tab: type[Tab], logdir: Path) -> None:
    """Guards against failing if a file is removed between listing and opening it."""
    server = tab(logdir)
    server.json("index")
    store.path(logdir / "translator", 1000).unlink()
    reason = server.refused(404, "meta", run="translator", recording="step_00001000")
    assert "step_00001000.safetensors cannot be read: No such file" in reason
    assert server.json("curves", run="translator")["steps"] == [0, 2000]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_named_pipe_does_not_block_the_server(tab: type[Tab], logdir: Path) -> None:
    """Guards against blocking on a named pipe without a writer."""
    server = tab(logdir)
    server.json("index")
    path = store.path(logdir / "translator", 1000)
    path.unlink()
    os.mkfifo(path)
    assert "this is not a regular file" in server.refused(404, "meta", run="translator", recording="step_00001000")
    assert 1000 not in tab(logdir).json("index")["runs"]["translator"]["steps"]


def test_other_methods_are_refused_and_head_has_no_body(tab: type[Tab], logdir: Path) -> None:
    """Guards against a stack trace as the response to a POST request."""
    client = tab(logdir).client
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "ODD"):
        answer = client.open("/data/plugin/attention/index", method=method)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    answer = client.head("/data/plugin/attention/index")
    assert (answer.status_code, answer.data) == (200, b"")


def test_programming_errors_are_logged_and_answered_with_500(
    tab: type[Tab], logdir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against a programming error of the tab that stops TensorBoard or is hidden."""
    server = tab(logdir)
    monkeypatch.delattr(server.plugin._recordings, "_measures")
    answer = server.get("curves", run="translator")
    assert (answer.status_code, answer.text) == (500, "the Attention tab failed; see TensorBoard's log")
    assert "_measures" in caplog.text


@pytest.mark.parametrize("logdir", [None, "", "gs://bucket/runs", "/nowhere/at/all", "~nobody_of_this_name/runs"])
def test_unsearchable_log_folder_counts_as_empty(tab: type[Tab], logdir: str | None) -> None:
    """Guards against failing on log directories without recordings."""
    server = tab(logdir)
    assert server.plugin.is_active() is False
    assert server.json("index") == {"runs": {}, "newest": "", "logdir": logdir or ""}


def test_tab_becomes_active_with_the_first_recording(
    tab: type[Tab], tmp_path: Path, lesson: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a tab that appears only after a restart of TensorBoard."""
    monkeypatch.setattr("attention_maps.tensorboard.runs.REMEMBERED", 0)
    server = tab(tmp_path)
    assert server.plugin.is_active() is False
    store.save(lesson, tmp_path)
    deadline = time.monotonic() + 60
    while not server.plugin.is_active() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(server.json("index")["runs"]) == ["."]


def test_first_value_of_a_repeated_argument_is_used(tab: type[Tab], logdir: Path) -> None:
    """Guards against different runs for the same URL."""
    client = tab(logdir).client
    answer = client.get(
        "/data/plugin/attention/meta?run=sweep/0&recording=step_00000007&run=translator&recording=step_00000000"
    )
    assert answer.get_json()["step"] == 7


def test_links_out_of_the_log_folder_are_not_followed(tab: type[Tab], logdir: Path, tmp_path: Path) -> None:
    """Guards against leaking the contents of a foreign file by the name of a recording."""
    secret = tmp_path / "secret"
    secret.write_text("root:x:0:0" * 100, encoding="utf-8")
    path = store.path(logdir / "translator", 1000)
    path.unlink()
    path.symlink_to(secret)
    reason = tab(logdir).refused(404, "meta", run="translator", recording="step_00001000")
    assert "root" not in reason
    assert tab(logdir).json("index")["runs"]["translator"]["steps"] == [0, 2000]


def test_a_link_that_replaces_a_listed_recording_is_not_followed(tab: type[Tab], logdir: Path, tmp_path: Path) -> None:
    """Guards the moment between the listing of a folder and the reading of its files, even to a valid recording."""
    server = tab(logdir)
    arguments = {"run": "translator", "recording": "step_00001000"}
    assert server.get("meta", **arguments).status_code == 200
    path = store.path(logdir / "translator", 1000)
    path.rename(tmp_path / "elsewhere.safetensors")
    path.symlink_to(tmp_path / "elsewhere.safetensors")
    assert "cannot be read" in server.refused(404, "meta", **arguments)
