"""Questions to the tab: what may be asked, from where, and what happens to the process that answers."""

from __future__ import annotations

import json
import math
import shutil
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from attention_maps.tensorboard.questions import LAST_NUMBER
from attention_maps.tensorboard.request_checks import LARGEST
from tests.attention_maps.tensorboard.conftest import Tab, refusal
from tests.attention_maps.tensorboard.test_worker_process import in_thread
from training.checkpoints.early_weights import save_early_weights
from training.checkpoints.files import load_weights
from training.checkpoints.snapshot import Snapshot
from training.run_folder.tokenizers import load_tokenizers

GETS = ("index", "meta", "tensor", "curves", "pair", "checkpoints", "answer")
ASK = "/data/plugin/attention/ask"
QUESTION = {"run": "gpt", "text": "Ken runs."}


def post(tab: Tab, question: Any, **more: Any) -> TestResponse:
    """Ask; `more`: other arguments of the request."""
    content = question if isinstance(question, bytes) else json.dumps(question).encode()
    return tab.client.post(ASK, **{"data": content, "content_type": "application/json"} | more)


@pytest.fixture(scope="module")
def asked(trained: Path) -> Iterator[Tab]:
    """Return the plugin for the two runs."""
    tab = Tab(trained / "runs")
    yield tab
    tab.plugin.questions.close()


def sharing(asked: Tab, logdir: Path, answers: Path) -> Tab:
    """Return a new plugin for a log directory, which asks the process of another one; its answers are in a folder."""
    tab = Tab(logdir)
    answers.mkdir()
    tab.plugin.questions._started = asked.plugin.questions.worker, answers
    return tab


def test_a_question_gives_recordings_that_the_tab_reads(asked: Tab) -> None:
    """Guards against recordings that the other routes do not know, and an answer that is lost with the page."""
    answer = post(asked, QUESTION | {"removed": [["decoder", 0, 0]]}).get_json()
    assert answer["recording"] == f"asked_{int(answer['whole_recording'][-5:]) + 1:05d}"
    for recording in (answer["recording"], answer["whole_recording"]):
        meta = asked.json("meta", run="gpt", recording=recording)
        assert meta["samples"][0]["reads"]["pieces"] == answer["tokens"]
        tensor = asked.get("tensor", run="gpt", recording=recording, sample=0, what="logits")
        assert (tensor.status_code, tensor.headers["X-Dtype"]) == (200, "F32")
    assert asked.json("answer", run="gpt", recording=answer["recording"])["next"] == answer["next"]
    whole = asked.json("answer", run="gpt", recording=answer["whole_recording"])
    assert (whole["losses"], whole["whole"]) == (answer["whole"]["losses"], None)
    listed = asked.json("index")["runs"]
    assert int(answer["recording"][-5:]) in listed["gpt"]["asked"]
    assert "asked" not in listed["translate"]
    assert "not kept" in asked.refused(404, "meta", run="translate", recording=answer["recording"])
    assert "not kept" in asked.refused(404, "meta", run="gpt", recording="asked_99999")


def test_numbers_continue_those_that_the_browser_has_seen(asked: Tab, trained: Path, tmp_path: Path) -> None:
    """Guards against an answer with the number of one that an open page has read before TensorBoard was restarted."""
    tab = sharing(asked, trained / "runs", tmp_path / "answers")
    for after, number in [(100, 102), (2, 104), (105, 108), (10**14, LAST_NUMBER + 2), (10**14, LAST_NUMBER + 4)]:
        assert post(tab, QUESTION | {"after": after}).get_json()["recording"] == f"asked_{number:05d}"
    for wrong in (-1, True, "3", 1.5, None):
        assert "'after' must be the number of an answer" in refusal(post(tab, QUESTION | {"after": wrong}), 400)


def test_clear_deletes_the_answers_of_one_run(asked: Tab) -> None:
    """Guards against answers of another run that are lost, files that stay, and a number that is given twice."""
    first = post(asked, QUESTION).get_json()["recording"]
    file = Path(asked.plugin.questions.path("gpt", first))
    other = post(asked, {"run": "translate", "source": "エミは走る。"}).get_json()["recording"]
    clear = partial(asked.client.post, "/data/plugin/attention/clear")
    assert "only the page" in refusal(clear(json={"run": "gpt"}, headers={"Sec-Fetch-Site": "cross-site"}), 403)
    assert clear(json={"run": "gpt"}).status_code == 200
    assert not file.exists()
    assert "not kept" in asked.refused(404, "answer", run="gpt", recording=first)
    runs = asked.json("index")["runs"]
    assert "asked" not in runs["gpt"]
    assert int(other[-5:]) in runs["translate"]["asked"]
    assert post(asked, QUESTION).get_json()["recording"] > first
    clear(json={"run": "translate"})
    assert "no run 'nowhere'" in refusal(clear(json={"run": "nowhere"}), 404)


def test_the_kept_checkpoints_are_listed(asked: Tab, trained: Path, tmp_path: Path) -> None:
    """Guards against checkpoints that cannot be asked, and a run without any."""
    listed = asked.json("checkpoints", run="gpt")
    (checkpoint,) = listed["checkpoints"]
    assert listed["both_directions"] is False
    assert checkpoint == {"name": "step-00000006", "step": 6, "best": True, "last": True}
    answer = post(asked, QUESTION | {"checkpoint": checkpoint["name"]}).get_json()
    assert answer["checkpoint"] == checkpoint["name"]
    shutil.copytree(trained / "runs" / "gpt" / "attention", tmp_path / "bare" / "attention")
    bare = sharing(asked, tmp_path, tmp_path / "answers")
    assert bare.json("checkpoints", run="bare") == {"checkpoints": [], "both_directions": False}
    assert "contains no checkpoint" in refusal(post(bare, QUESTION | {"run": "bare"}), 400)


def test_early_weights_are_listed_by_step_and_asked(asked: Tab, trained: Path, tmp_path: Path) -> None:
    """Guards against early models that cannot be chosen, a step that is listed twice, and weights that are deleted."""
    shutil.copytree(trained / "runs" / "gpt", tmp_path / "gpt", symlinks=True)
    weights = load_weights(tmp_path / "gpt" / "checkpoints" / "last")
    for step, size in ((4, 0.5), (0, 0.0), (6, 1.0)):
        small = {name: tensor * size for name, tensor in weights.items()}
        save_early_weights(tmp_path / "gpt" / "checkpoints", step, Snapshot(small, {}))
    tab = sharing(asked, tmp_path, tmp_path / "answers")
    listed = tab.json("checkpoints", run="gpt")["checkpoints"]
    assert [checkpoint["name"] for checkpoint in listed] == ["weights-00000000", "weights-00000004", "step-00000006"]
    assert listed[1] == {"name": "weights-00000004", "step": 4, "best": False, "last": False}
    answers = [post(tab, QUESTION | {"checkpoint": checkpoint["name"]}).get_json() for checkpoint in listed]
    shutil.rmtree(tmp_path / "gpt" / "checkpoints")
    gone = post(tab, QUESTION | {"checkpoint": "step-00000006"})
    assert "contains no checkpoint" in refusal(gone, 400), "the model in memory is not that of the run any more"
    effects = {"run": "gpt", "recording": answers[0]["recording"]}
    gone = tab.client.post("/data/plugin/attention/effects", json=effects)
    assert "contains no checkpoint" in refusal(gone, 400)
    assert tab.json("checkpoints", run="gpt")["checkpoints"] == []
    refusal(post(tab, QUESTION | {"run": "nobody"}), 404)
    assert [answer["checkpoint"] for answer in answers] == [checkpoint["name"] for checkpoint in listed]
    assert [answer["step"] for answer in answers] == [checkpoint["step"] for checkpoint in listed]
    assert len({str(answer["losses"]) for answer in answers}) == 3, "each is answered by its own weights"
    vocabulary = load_tokenizers(trained / "runs" / "gpt")[0].vocab_size
    assert answers[0]["losses"] == pytest.approx([math.log(vocabulary)] * len(answers[0]["losses"]), abs=1e-3)


def test_only_the_page_may_post(asked: Tab) -> None:
    """Guards against another web page that asks, or fills the memory, through the browser of a user."""
    assert "POST" in refusal(asked.client.get(ASK), 405)
    assert "GET" in refusal(asked.client.post("/data/plugin/attention/index"), 405)
    refusal(asked.client.options(ASK), 405)  # the question before a question of another origin
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        refusal(post(asked, QUESTION, content_type=kind), 415)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
    ):
        assert "only the page" in refusal(post(asked, QUESTION, headers=headers), 403)
        assert "only the page" in refusal(asked.client.get("/data/plugin/attention/index", headers=headers), 403)
    for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": "http://proxy"}, {"Origin": "http://localhost"}):
        assert post(asked, QUESTION, headers=headers).status_code == 200
    refusal(post(asked, b"x" * (LARGEST + 1)), 413)
    refusal(post(asked, QUESTION, headers={"Transfer-Encoding": "chunked"}), 413)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:6006", True),
        ("[::1]:6006", True),
        ("LOCALHOST.", True),
        (socket.gethostname(), True),
        ("tb.lab.example", True),
        ("listed.example:6006", True),
        ("Other.example", True),
        ("evil.local", False),
        ("evil", False),
        ("rebound.example:6006", False),
        ("127.0.0.1.rebound.example", False),
        ("notlocalhost", False),
        ("[", False),
    ],
)
def test_requests_under_foreign_host_names_are_refused(
    tab: type[Tab], logdir: Path, monkeypatch: pytest.MonkeyPatch, host: str, allowed: bool
) -> None:
    """Guards against DNS rebinding: under its own name, which leads to this machine, a foreign page is of the same
    origin as TensorBoard, and reads and asks what it likes. All data are refused, however the page asks."""
    monkeypatch.setenv("ATTENTION_HOSTS", "listed.example, other.example")
    server = tab(logdir, name="tb.lab.example")
    base = {"environ_overrides": {"HTTP_HOST": host}}
    page = f"http://{host}"
    # Browsers send Sec-Fetch-Site to https and localhost alone; a window that an https page opens may name that page.
    trusted = {"Origin": page, "Sec-Fetch-Site": "same-origin"} if allowed else {}
    for headers in ({}, {"Referer": f"{page}/"}, {"Referer": f"https://{host}/"}, {"Origin": page}, trusted):
        answers = [server.client.get(f"/data/plugin/attention/{route}", headers=headers, **base) for route in GETS]
        posts = ("ask", "clear", "effects", "circuits")
        answers += [
            server.client.post(f"/data/plugin/attention/{route}", json={"run": "?"}, headers=headers, **base)
            for route in posts
        ]
        for answer in answers:
            if not allowed:
                assert "may belong to somebody else: open TensorBoard by an IP address" in refusal(answer, 403)
            elif "Origin" not in headers or "Sec-Fetch-Site" in headers:
                assert answer.status_code in (200, 400, 404)
        assert server.client.get("/data/plugin/attention/static/index.js", headers=headers, **base).status_code == 200


def test_the_proxy_of_a_notebook_may_have_any_name_by_https(tab: type[Tab], logdir: Path) -> None:
    """Guards against a tab that is empty in JupyterHub, which passes its own name on: nobody else has a certificate for
    it, so its page is TensorBoard's. Browsers say in Sec-Fetch-Site, old ones with a POST in Origin, that it is."""
    proxied = {"environ_overrides": {"HTTP_HOST": "hub.example"}}
    client, same = tab(logdir).client, {"Sec-Fetch-Site": "same-origin"}
    assert client.get("/data/plugin/attention/index", headers=same, **proxied).status_code == 200
    for asked in ({"Origin": "https://hub.example"}, {"Origin": "https://hub.example"} | same):
        assert "no run" in refusal(client.post(ASK, json=QUESTION | {"run": "?"}, headers=asked, **proxied), 404)
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert "only the page of this" in refusal(client.post(ASK, json=QUESTION, headers=foreign, **proxied), 403)


def test_circuits_route(asked: Tab) -> None:
    """Guards the route of circuits: only for the page, and only with the parts of such a question."""

    def circuits(question: dict, **more: Any) -> TestResponse:
        return asked.client.post("/data/plugin/attention/circuits", json=question, **more)

    question = {"run": "gpt", "circuit": ["decoder", 0, 0]}
    assert circuits(question).get_json()["attends"]["pairs"]
    assert "only the page" in refusal(circuits(question, headers={"Sec-Fetch-Site": "cross-site"}), 403)
    assert "'to' is not part" in refusal(circuits(question | {"to": "/tmp/x"}), 400)
    assert "must be a head" in refusal(circuits({"run": "gpt"}), 400)
    assert "'run' must be" in refusal(circuits({"circuit": ["decoder", 0, 0]}), 400)
    refusal(circuits(question | {"run": "../gpt"}), 404)


def test_effects_route(asked: Tab) -> None:
    """Guards the route of effects: only for the page, about an answer that is kept, and never about another file."""

    def effects(question: dict, **more: Any) -> TestResponse:
        return asked.client.post("/data/plugin/attention/effects", json=question, **more)

    answer = post(asked, QUESTION | {"removed": [["decoder", 0, 0]]}).get_json()
    question = {"run": "gpt", "recording": answer["recording"]}
    result = effects(question).get_json()
    assert result["whole"][: len(answer["losses"])] == pytest.approx(answer["whole"]["losses"], abs=1e-4)
    assert result["losses"][0][: len(answer["losses"])] == pytest.approx(answer["losses"], abs=1e-4)
    assert effects(question | {"recording": answer["whole_recording"]}).get_json() == result
    assert effects(question | {"how": "mean"}).get_json()["losses"] != result["losses"]
    assert "only the page" in refusal(effects(question, headers={"Sec-Fetch-Site": "cross-site"}), 403)
    assert "'effects' is not part" in refusal(effects(question | {"effects": "/etc/passwd"}), 400)
    assert "'recording' must be" in refusal(effects({"run": "gpt"}), 400)
    assert "'how' must be" in refusal(effects(question | {"how": "other"}), 400)
    assert "not kept" in refusal(effects(question | {"run": "translate"}), 404)
    assert "not kept" in refusal(effects(question | {"recording": "step_00000006"}), 404)


def test_questions_are_numbered_by_run(asked: Tab) -> None:
    """Guards against a second question of a run that is called question 7, and an answer of another run."""

    def last(run: str) -> int:
        return max(asked.json("index")["runs"][run].get("asked", [0]))

    other = {"run": "translate", "source": "エミは走る。", "target": "Emi runs."}
    first = (post(asked, question).get_json() for question in (QUESTION, other))
    before = {answer["run"]: int(answer["recording"][-5:]) for answer in first}
    answers = [post(asked, question).get_json() for question in (QUESTION, other, QUESTION, other)]
    refusal(post(asked, QUESTION | {"text": " "}), 400)
    assert {run: last(run) - number for run, number in before.items()} == {"gpt": 4, "translate": 4}
    for answer in answers:
        meta = asked.json("meta", run=answer["run"], recording=answer["recording"])
        assert meta["samples"][0]["reads"]["pieces"] == answer["tokens"]
    assert int(post(asked, QUESTION).get_json()["recording"][-5:]) == before["gpt"] + 6, "a refused one has no number"


def test_only_the_last_answers_are_kept(asked: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a disk that questions fill, and a comparison with the maps of a whole model that are dropped."""
    monkeypatch.setattr("attention_maps.tensorboard.questions.KEPT", 3)
    ids = [post(asked, QUESTION).get_json()["recording"] for _ in range(5)]
    assert len(asked.json("index")["runs"]["gpt"]["asked"]) == 3
    folder = Path(asked.plugin.questions.worker.folder)
    assert len(list(folder.iterdir())) == 3
    assert [asked.json("meta", run="gpt", recording=recording)["step"] for recording in ids[-3:]] == [6, 6, 6]
    asked.refused(404, "meta", run="gpt", recording=ids[0])
    pairs = [post(asked, QUESTION | {"removed": [["decoder", 0, 0]]}).get_json() for _ in range(2)]
    newest = [int(pairs[-1][key][-5:]) for key in ("whole_recording", "recording")]
    assert asked.json("index")["runs"]["gpt"]["asked"] == newest, "both recordings of a question are dropped together"
    assert len(list(folder.iterdir())) == 2


def test_two_browsers_get_their_own_answers(asked: Tab) -> None:
    """Guards against answers that are exchanged, or recordings that overwrite each other."""
    texts = ["Ken runs.", "Emi has a red pen."]

    together = threading.Barrier(len(texts), timeout=60)

    def ask(text: str) -> list[dict[str, Any]]:
        answers = []
        for _ in range(5):
            together.wait()
            answers.append(post(asked, {"run": "gpt", "text": text}).get_json())
        return answers

    threads = [in_thread(partial(ask, text)) for text in texts]
    for thread, _ in threads:
        thread.join(60)
    answers = [results[0] for _, results in threads]
    assert len({answer["recording"] for replies in answers for answer in replies}) == 10
    for text, replies in zip(texts, answers, strict=True):
        for answer in replies:
            pieces = asked.json("meta", run="gpt", recording=answer["recording"])["samples"][0]["reads"]["pieces"]
            assert "".join(pieces[1:]).replace("▁", " ").strip() == text
