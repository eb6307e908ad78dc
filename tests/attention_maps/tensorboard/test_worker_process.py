"""The process that answers questions: what the tab says when it is killed, hangs, or cannot be started."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attention_maps.files.errors import Refusal
from attention_maps.tensorboard.worker_process import LIMIT, WAIT, Unanswered, WorkerProcess
from tests.attention_maps.tensorboard.conftest import address_of
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


def stop(pid: int) -> None:
    """Stop a process, and wait until it has stopped: it reads nothing more."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while "State:\tT" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8"):
        assert time.monotonic() < deadline, "the process does not stop"
        time.sleep(0.01)


def wait_until_asked(pid: int) -> None:
    """Wait until a question, which a stopped process does not read, is in its standard input."""
    deadline = time.monotonic() + 30
    pipe = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))):  # the number of unread bytes
            assert time.monotonic() < deadline, "no question is sent"
            time.sleep(0.01)
    finally:
        os.close(pipe)


def children(parent: int) -> set[int]:
    """Return the numbers of the processes that a process has started and that have not ended."""
    pids = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if f"\nPPid:\t{parent}\n" in status.read_text(encoding="utf-8", errors="replace"):
                pids.add(int(status.parent.name))
    return {pid for pid in pids if alive(pid)}


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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """Return a process for all tests that leave it usable: each start imports torch."""
    worker = WorkerProcess(str(tmp_path_factory.mktemp("asked")))
    yield worker
    worker.close()


@pytest.fixture
def worker(shared: WorkerProcess) -> Iterator[WorkerProcess]:
    """Return the shared process, and restore its limits."""
    yield shared
    shared.limit, shared.wait = LIMIT, WAIT


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[WorkerProcess]:
    """Return a process, not yet started, that ends with the test."""
    worker = WorkerProcess(str(tmp_path))
    yield worker
    worker.close()


def question(trained: Path, worker: WorkerProcess) -> dict[str, Any]:
    """Return a question as it is sent to the process."""
    return {"run": str(trained / "runs" / "gpt"), "text": "Ken runs.", "to": f"{worker.folder}/x.safetensors"}


def test_a_hung_process_is_killed_and_the_next_question_starts_another(worker: WorkerProcess, trained: Path) -> None:
    """Guards against a tab that waits forever, also while the pipe to the process is full, and a TensorBoard with so
    many open event files that `select` cannot wait for another one."""
    asked = question(trained, worker)
    assert worker.ask(asked)["task"] == "gpt"
    first = worker.pid
    assert first
    stop(first)
    worker.limit = 3
    with pytest.raises(Unanswered, match="no answer within 3 seconds"):
        worker.ask(asked | {"text": "x" * 200_000})
    wait_until_gone(first)
    with open_files(1100):
        assert worker.ask(asked)["task"] == "gpt"
    assert worker.pid != first


@contextlib.contextmanager
def open_files(count: int) -> Iterator[None]:
    """Hold this number of files open."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(before, 2 * count), most), most))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (before, most))
        for _ in range(count):
            stack.enter_context(Path(os.devnull).open("rb"))
        yield


def test_a_killed_process_gives_a_sentence(worker: WorkerProcess, trained: Path) -> None:
    """Guards against a stack trace, or a dead process that is asked again; other clients wait for their turn."""
    asked = question(trained, worker)
    worker.ask(asked)
    first = worker.pid
    assert first
    stop(first)
    thread, results = in_thread(lambda: worker.ask(asked))
    other, others = in_thread(lambda: worker.ask(asked))
    wait_until_asked(first)
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


def test_waiting_for_a_busy_worker_times_out(worker: WorkerProcess, trained: Path) -> None:
    """Guards against browsers that block each other for as long as they ask."""
    asked = question(trained, worker)
    worker.ask(asked)
    worker.wait = 0.2
    assert worker.pid
    stop(worker.pid)
    thread, results = in_thread(lambda: worker.ask(asked))
    wait_until_asked(worker.pid)
    with pytest.raises(Unanswered, match="another question"):
        worker.ask(asked)
    os.kill(worker.pid, signal.SIGCONT)
    thread.join(30)
    assert results[0]["task"] == "gpt"


@pytest.mark.parametrize("package", ["torch", "tab_answers"])
def test_a_missing_package_is_named(fresh: WorkerProcess, package: str) -> None:
    """Guards against a riddle in an environment that only has TensorBoard."""
    program = (
        "import runpy, sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == '{package}':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "runpy.run_module('tab_answers.worker', None, '__main__')\n"
    )
    fresh.command = [sys.executable, "-c", program, *fresh.command[3:]]
    with pytest.raises(Unanswered, match=f"need the package '{package}'"):
        fresh.ask({"text": "x"})


def test_memory_limit_below_the_libraries_is_reported(fresh: WorkerProcess, trained: Path) -> None:
    """Guards against silence where the libraries do not fit into the memory that the process may use; the next question
    starts another process."""
    fresh.command[-1] = str(4 << 20)
    with pytest.raises(Unanswered, match="too little memory"):
        fresh.ask(question(trained, fresh))
    fresh.command[-1] = str(4 << 30)
    assert fresh.ask(question(trained, fresh))["task"] == "gpt"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes can be set on Linux only")
def test_out_of_memory_during_a_question_is_reported(worker: WorkerProcess, trained: Path) -> None:
    """Guards against a process that is lost, or keeps a half-loaded model, when the memory ends during a question."""
    asked = question(trained, worker)
    worker.ask(asked)
    first = worker.pid
    assert first
    used = re.search(r"VmData:\s+(\d+) kB", Path(f"/proc/{first}/status").read_text(encoding="utf-8"))
    assert used
    before = resource.prlimit(first, resource.RLIMIT_DATA)
    resource.prlimit(first, resource.RLIMIT_DATA, (1024 * int(used[1]), before[1]))
    other = asked | {"run": str(trained / "runs" / "translate"), "source": "エミは走る。"}
    with pytest.raises(Refusal, match="memory"):
        worker.ask({key: other[key] for key in ("run", "source", "to")})
    if worker.pid == first:
        resource.prlimit(first, resource.RLIMIT_DATA, before)
    assert worker.ask(asked)["task"] == "gpt"


@pytest.mark.slow
@pytest.mark.parametrize(("end", "hung"), [(signal.SIGTERM, True), (signal.SIGKILL, False)])
def test_the_process_ends_with_tensorboard(trained: Path, tmp_path: Path, end: signal.Signals, hung: bool) -> None:
    """Guards against processes and folders that stay behind, also of a process that hangs with a question."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "attention_maps.tensorboard",
            "--logdir",
            trained / "runs",
            "--port",
            "0",
            "--load_fast=false",
        ],
        cwd=ROOT,
        env=environment() | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    address = f"{address_of(process)}data/plugin/attention/ask"

    def ask() -> dict[str, Any]:
        content = json.dumps({"run": "gpt", "text": "Ken"}).encode()
        request = urllib.request.Request(address, content, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            reply: dict[str, Any] = json.load(answer)
            return reply

    assert ask()["task"] == "gpt"
    (worker,) = children(process.pid)
    (folder,) = tmp_path.glob("attention-questions-*")
    assert len(list(folder.iterdir())) == 1
    if hung:
        stop(worker)
        in_thread(ask)
        wait_until_asked(worker)
    process.send_signal(end)
    process.wait(timeout=30)
    assert process.stderr
    process.stderr.close()
    wait_until_gone(worker)
    assert not folder.exists()
