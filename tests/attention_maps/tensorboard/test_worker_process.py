"""The process that answers questions: what the tab says when it is killed, hangs, or cannot be started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attention_maps.tensorboard.worker_process import Unanswered, WorkerProcess
from tests.conftest import ROOT, environment


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
    program = (
        "import runpy, sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == '{package}':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "runpy.run_module('inspection.worker', None, '__main__')\n"
    )
    worker.command = [sys.executable, "-c", program, *worker.command[3:]]
    with pytest.raises(Unanswered, match=f"need the package '{package}'"):
        worker.ask({"text": "x"})


def test_too_little_memory_is_said(worker: WorkerProcess, trained: Path) -> None:
    """Guards against silence where the libraries do not fit into the memory that the process may use; the next question
    starts another process."""
    worker.command[-1] = str(4 << 20)
    with pytest.raises(Unanswered, match="too little memory"):
        worker.ask(question(trained, worker))
    worker.command[-1] = str(4 << 30)
    assert worker.ask(question(trained, worker))["task"] == "gpt"


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
