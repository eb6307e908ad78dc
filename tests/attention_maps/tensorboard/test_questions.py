"""Questions to the tab: what may be asked, by whom, and what happens to the process that answers."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import EnvironBuilder, TestResponse
from werkzeug.wrappers import Request

from attention_maps.files.errors import Refusal
from attention_maps.tensorboard.posted import LARGEST, posted_json
from attention_maps.tensorboard.worker_process import Unanswered, WorkerProcess
from tests.attention_maps.tensorboard.conftest import Tab, refusal
from tests.conftest import ROOT, environment
from training.checkpoints.early_weights import save_early_weights
from training.checkpoints.files import load_weights
from training.checkpoints.snapshot import Snapshot
from training.run_folder.tokenizers import load_tokenizers

ASK = "/data/plugin/attention/ask"
QUESTION = {"run": "gpt", "text": "Ken runs."}


def post(tab: Tab, question: Any, **more: Any) -> TestResponse:
    """Ask; `more`: other arguments of the request."""
    content = question if isinstance(question, bytes) else json.dumps(question).encode()
    return tab.client.post(ASK, **{"data": content, "content_type": "application/json"} | more)


def alive(pid: int) -> bool:
    """Whether a process exists and is not only waiting to be collected."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def wait_until_gone(pid: int, seconds: float = 10) -> None:
    """Wait until a process has ended."""
    deadline = time.monotonic() + seconds
    while alive(pid):
        assert time.monotonic() < deadline, "the process still runs"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def asked(trained: Path) -> Iterator[Tab]:
    """Return the plugin for the two runs."""
    tab = Tab(trained / "runs")
    yield tab
    tab.plugin.questions.close()


def test_a_question_gives_recordings_that_the_tab_reads(asked: Tab) -> None:
    """Guards against recordings that the other routes do not know, and an answer that is lost with the page."""
    answer = post(asked, QUESTION | {"removed": [["decoder", 0, 0]]}).get_json()
    assert answer["recording"] == f"asked_{int(answer['whole_recording'][-5:]) + 1:05d}"
    for recording in (answer["recording"], answer["whole_recording"]):
        meta = asked.json("meta", run="gpt", recording=recording)
        assert meta["samples"][0]["reads"]["pieces"] == answer["tokens"]
        tensor = asked.get("tensor", run="gpt", recording=recording, sample=0, what="logits")
        assert tensor.status_code == 200
    assert asked.json("answer", run="gpt", recording=answer["recording"])["next"] == answer["next"]
    whole = asked.json("answer", run="gpt", recording=answer["whole_recording"])
    assert (whole["losses"], whole["whole"]) == (answer["whole"]["losses"], None)
    listed = asked.json("index")["runs"]
    assert int(answer["recording"][-5:]) in listed["gpt"]["asked"]
    assert "asked" not in listed["translate"]
    assert "not kept" in asked.refused(404, "meta", run="translate", recording=answer["recording"])
    assert "not kept" in asked.refused(404, "meta", run="gpt", recording="asked_99999")


def test_the_kept_checkpoints_are_listed(asked: Tab, trained: Path, tmp_path: Path) -> None:
    """Guards against checkpoints that cannot be asked, and a run without any."""
    listed = asked.json("checkpoints", run="gpt")
    (kept,) = listed["checkpoints"]
    assert listed["both_directions"] is False
    assert kept == {"name": "step-00000006", "step": 6, "best": True, "last": True}
    answer = post(asked, QUESTION | {"checkpoint": kept["name"]}).get_json()
    assert answer["checkpoint"] == kept["name"]
    shutil.copytree(trained / "runs" / "gpt" / "attention", tmp_path / "bare" / "attention")
    bare = Tab(tmp_path)
    assert bare.json("checkpoints", run="bare") == {"checkpoints": [], "both_directions": False}
    assert "contains no checkpoint" in refusal(post(bare, QUESTION | {"run": "bare"}), 400)
    bare.plugin.questions.close()


def test_early_weights_are_listed_by_step_and_asked(trained: Path, tmp_path: Path) -> None:
    """Guards against early models that cannot be chosen, and a step that is listed twice."""
    shutil.copytree(trained / "runs" / "gpt", tmp_path / "gpt", symlinks=True)
    weights = load_weights(tmp_path / "gpt" / "checkpoints" / "last")
    for step, size in ((4, 0.5), (0, 0.0), (6, 1.0)):
        small = {name: tensor * size for name, tensor in weights.items()}
        save_early_weights(tmp_path / "gpt" / "checkpoints", step, Snapshot(small, {}))
    tab = Tab(tmp_path)
    listed = tab.json("checkpoints", run="gpt")["checkpoints"]
    assert [one["name"] for one in listed] == ["weights-00000000", "weights-00000004", "step-00000006"]
    assert listed[1] == {"name": "weights-00000004", "step": 4, "best": False, "last": False}
    answers = [post(tab, QUESTION | {"checkpoint": one["name"]}).get_json() for one in listed]
    tab.plugin.questions.close()
    assert [(one["checkpoint"], one["step"]) for one in answers] == [(one["name"], one["step"]) for one in listed]
    assert len({str(one["losses"]) for one in answers}) == 3, "each is answered by its own weights"
    vocabulary = load_tokenizers(trained / "runs" / "gpt")[0].vocab_size
    assert answers[0]["losses"] == pytest.approx([math.log(vocabulary)] * len(answers[0]["losses"]), abs=1e-3)


def test_only_the_page_may_ask(asked: Tab) -> None:
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
    for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": "http://proxy"}, {"Origin": "http://localhost"}):
        assert post(asked, QUESTION, headers=headers).status_code == 200
    refusal(post(asked, b"x" * (LARGEST + 1)), 413)
    refusal(post(asked, QUESTION, headers={"Transfer-Encoding": "chunked"}), 413)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:6006", True),
        ("[::1]:6006", True),
        ("192.168.1.7:6006", True),
        ("localhost:6006", True),
        ("gpu-box:6006", True),
        ("gpu-box.local", True),
        (socket.gethostname(), True),
        ("tb.lab.example", True),
        ("rebound.example:6006", False),
        ("127.0.0.1.rebound.example", False),
        ("localhost.rebound.example.", False),
    ],
)
def test_a_name_that_may_be_somebody_elses_is_refused(host: str, allowed: bool) -> None:
    """Guards against DNS rebinding: under its own name, which leads to this machine, a foreign page is of the same
    origin as TensorBoard. Programs are refused likewise, and pages by https are not."""

    def sent(headers: dict[str, str]) -> Request:
        given = {"path": "/ask", "method": "POST", "base_url": f"http://{host}", "json": {"run": "gpt"}}
        return Request(EnvironBuilder(**given, headers=headers).get_environ())

    for headers in ({}, {"Origin": f"http://{host}"}, {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}):
        if allowed:
            assert posted_json(sent(headers), "tb.lab.example") == {"run": "gpt"}
        else:
            with pytest.raises(Refusal, match="may belong to somebody else: open TensorBoard by an IP address"):
                posted_json(sent(headers), "tb.lab.example")
    proxied = {"Origin": "https://notebooks.example", "Sec-Fetch-Site": "same-origin"}
    assert posted_json(sent(proxied)) == {"run": "gpt"}


def test_the_weights_of_a_head_are_asked_in_the_same_way(asked: Tab) -> None:
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


@pytest.mark.slow
def test_hostile_questions_are_refused_quickly(asked: Tab, trained: Path) -> None:
    """Guards against a file outside the answers' folder, and a process that a question ends."""
    chance = random.Random(1)
    assert post(asked, QUESTION).status_code == 200
    pid = asked.plugin.questions.worker.pid
    before = sorted(path for path in trained.rglob("*") if path.is_file())
    values: list[Any] = [
        None, True, 0, -1, 1.5, 10**400, "", " ", "x" * 2001, "\ud800", "\0", "../../x", "/etc/passwd", [], {}, [[]],
        [["decoder", 0, 9]], [["decoder", 10**9, None]], [["x", 0, 0]], [["decoder", 0, 0]] * 5000, {"text": "x"},
        {"text": "x", "heads": [["decoder", 0, 7]]}, "step-00000006/../x", "last ", "mean ", 201,
    ]  # fmt: skip
    keys = [
        "run",
        "checkpoint",
        "text",
        "source",
        "target",
        "reverse",
        "continue",
        "removed",
        "how",
        "patch",
        "to",
        "x" * 50,
    ]
    started = time.monotonic()
    for _ in range(1000):
        question: Any = dict(QUESTION)
        for _ in range(chance.choice([1, 2, 3])):
            question[chance.choice(keys)] = chance.choice(values)
        content: Any = json.dumps(question).encode()
        if chance.random() < 0.1:
            noise = (b"[" * 20_000, b"\xff", b"", b"3", b'{"a":NaN}', b"1" * 9999)
            content = content[: chance.randrange(len(content))] if chance.random() < 0.5 else chance.choice(noise)
        answer = post(asked, content)
        if answer.status_code != 200:
            refusal(answer, answer.status_code)
            assert answer.status_code in (400, 404, 413), answer.text
            assert "Traceback" not in answer.text
            assert "the question failed" not in answer.text
    assert time.monotonic() - started < 60
    assert asked.plugin.questions.worker.pid == pid
    assert sorted(path for path in trained.rglob("*") if path.is_file()) == before


def test_only_the_last_answers_are_kept(asked: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a disk that questions fill."""
    monkeypatch.setattr("attention_maps.tensorboard.questions.KEPT", 3)
    ids = [post(asked, QUESTION).get_json()["recording"] for _ in range(5)]
    assert len(asked.json("index")["runs"]["gpt"]["asked"]) == 3
    folder = Path(asked.plugin.questions.worker.folder)
    assert sorted(path.stem for path in folder.iterdir()) == ids[-3:]
    asked.refused(404, "meta", run="gpt", recording=ids[0])


def in_thread(act: Any) -> tuple[threading.Thread, list[Any]]:
    """Start a thread; its result or error is put into the list."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(act())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    """Return a process with a short time limit."""
    folder = tmp_path / "asked"
    folder.mkdir()
    made = WorkerProcess(str(folder), limit=3)
    yield made
    made.close()


def question(trained: Path, worker: WorkerProcess) -> dict[str, Any]:
    """Return a question as it is sent to the process."""
    return {"run": str(trained / "runs" / "gpt"), "text": "Ken runs.", "to": f"{worker.folder}/x.safetensors"}


def test_a_hung_process_is_killed_and_the_next_question_starts_another(worker: WorkerProcess, trained: Path) -> None:
    """Guards against a tab that waits forever, also while the pipe to the process is full."""
    asked = question(trained, worker)
    assert worker.ask(asked)["task"] == "gpt"
    first = worker.pid
    assert first
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(Unanswered, match="no answer within 3 seconds"):
        worker.ask(asked | {"text": "x" * 200_000})
    wait_until_gone(first)
    assert worker.ask(asked)["task"] == "gpt"
    assert worker.pid != first


def test_a_killed_process_gives_a_sentence(worker: WorkerProcess, trained: Path) -> None:
    """Guards against a stack trace, or a dead process that is asked again; other clients wait for their turn."""
    asked = question(trained, worker)
    worker.ask(asked)
    first = worker.pid
    assert first
    os.kill(first, signal.SIGSTOP)
    thread, results = in_thread(lambda: worker.ask(asked))
    other, others = in_thread(lambda: worker.ask(asked))
    deadline = time.monotonic() + 30
    while not worker._lock.locked() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)  # until the question is sent
    os.kill(first, signal.SIGKILL)
    thread.join(30)
    other.join(60)
    assert [result["task"] for result in results + others if isinstance(result, dict)] == ["gpt"]
    (sentence,) = [str(result) for result in results + others if isinstance(result, Unanswered)]
    assert "ended by SIGKILL" in sentence
    second = worker.pid
    assert second
    os.kill(second, signal.SIGKILL)  # between two questions
    deadline = time.monotonic() + 30
    while worker.pid and time.monotonic() < deadline:  # a zombie whose threads still end cannot be collected yet
        time.sleep(0.01)
    assert worker.ask(asked)["task"] == "gpt"


def test_a_busy_process_is_not_waited_for_without_end(worker: WorkerProcess, trained: Path) -> None:
    """Guards against browsers that block each other for as long as they ask."""
    asked = question(trained, worker)
    worker.ask(asked)
    worker.wait = 0.2
    assert worker.pid
    os.kill(worker.pid, signal.SIGSTOP)
    thread, results = in_thread(lambda: worker.ask(asked))
    time.sleep(0.1)
    with pytest.raises(Unanswered, match="another question"):
        worker.ask(asked)
    os.kill(worker.pid, signal.SIGCONT)
    thread.join(30)
    assert results[0]["task"] == "gpt"


@pytest.mark.parametrize("package", ["torch", "inspection"])
def test_a_missing_package_is_named(worker: WorkerProcess, package: str) -> None:
    """Guards against a riddle in an environment that only has TensorBoard."""
    program = f"import sys; sys.modules['{package}'] = None; import importlib"
    missing = f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')"
    worker.command = [sys.executable, "-c", f"{program}\n{missing}"]
    with pytest.raises(Unanswered, match=f"need the package '{package}'"):
        worker.ask({"text": "x"})


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_process_ends_with_tensorboard(trained: Path, tmp_path: Path, end: signal.Signals) -> None:
    """Guards against processes and folders that stay behind."""
    program = (
        "import json, sys, time\n"
        "from tests.attention_maps.tensorboard.conftest import Tab\n"
        f"tab = Tab({str(trained / 'runs')!r})\n"
        "answer = tab.client.post('/data/plugin/attention/ask', json={'run': 'gpt', 'text': 'Ken'})\n"
        "worker = tab.plugin.questions.worker\n"
        "print(json.dumps([answer.status_code, worker.pid, worker.folder]), flush=True)\n"
        "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment() | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    code, pid, folder = json.loads(process.stdout.readline())
    assert (code, Path(folder).parent) == (200, tmp_path)
    assert alive(pid)
    process.send_signal(end)
    process.wait(timeout=30)
    process.stdout.close()
    wait_until_gone(pid)
    assert list(tmp_path.iterdir()) == []
