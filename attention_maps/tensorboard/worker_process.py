"""The process that answers questions about runs with their models: `python -m tab_answers.worker`.

TensorBoard itself never imports torch. The process is started by the first question and serves one question at a time
through its pipes: no port is opened. It is killed if it does not answer in time, and the next question starts a new
one. It ends with TensorBoard, even if that is killed: its input ends then.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, Any

from attention_maps.files.errors import Refusal

FIRST_LIMIT, LIMIT = 60.0, 30.0
"""Seconds to answer the first question of a process, which imports torch, and a later one."""
WAIT = 45.0
"""Seconds that a question waits for those of other browsers."""
LONGEST_ANSWER = 16 * 2**20  # bytes
MEMORY_SHARE = 0.5
"""Share of the physical memory that the process may use."""
ROOT = Path(__file__).resolve().parents[2]
"""The folder with all packages of the project."""


class Unanswered(Refusal):
    """No answer: the process is busy, was killed, or cannot be started."""

    code = 503


class WorkerProcess:
    """Starts the worker process and exchanges questions and answers with it. Thread-safe."""

    def __init__(self, folder: str, first_limit: float = FIRST_LIMIT, limit: float = LIMIT, wait: float = WAIT) -> None:
        """folder: a temporary folder that the process deletes when it ends with TensorBoard; limits in seconds."""
        self.folder, self.first_limit, self.limit, self.wait = folder, first_limit, limit, wait
        self.command = [sys.executable, "-m", "tab_answers.worker", folder, str(memory_limit())]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=20)  # last lines of its standard error
        self._listener: threading.Thread | None = None
        self._fresh = True

    @property
    def pid(self) -> int | None:
        """The number of the running process, or None."""
        process = self._process
        return process.pid if process and process.poll() is None else None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question. Raises Refusal with the sentence of the process, or Unanswered."""
        if not self._lock.acquire(timeout=self.wait):
            raise Unanswered("another question is still being answered; ask again later")
        try:
            answer = self._exchange(json.dumps(question).encode() + b"\n")
        finally:
            self._lock.release()
        if isinstance(answer.get("ok"), dict):
            return answer["ok"]
        raise Refusal(str(answer.get("error", "the answer cannot be read")))

    def close(self) -> None:
        """End the process at once. A question that is being answered fails."""
        process, self._process = self._process, None
        if process:
            _kill(process)

    def _exchange(self, line: bytes) -> dict[str, Any]:
        process = self._running()
        seconds = self.first_limit if self._fresh else self.limit
        try:
            answer = json.loads(_exchanged(process, line, time.monotonic() + seconds))
            if not isinstance(answer, dict):
                raise ValueError
        except TimeoutError:
            self.close()
            raise Unanswered(f"no answer within {seconds:g} seconds: the question was stopped") from None
        except (EOFError, OSError):
            reason = self._reason(process)
            self.close()
            raise Unanswered(reason) from None
        except ValueError:
            self.close()
            raise Unanswered("the answer cannot be read") from None
        except BaseException:  # an interrupted exchange would leave its answer to the next question
            self.close()
            raise
        self._fresh = False
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process and self._process.poll() is None:
            return self._process
        if self._process:
            _kill(self._process)  # collects it and closes its pipes
        self._said.clear()
        if not (ROOT / "tab_answers" / "worker.py").is_file():  # the published wheel is attention_maps alone
            raise Unanswered("questions need the whole project: install it from a clone, not from the package index")
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,  # where the package is, also if the project is not installed
                env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},  # a training may need the whole GPU
                start_new_session=True,  # Ctrl-C in TensorBoard's terminal ends it through its input
            )
        except OSError as error:
            raise Unanswered(f"the process that answers questions cannot be started: {error.strerror}") from error
        assert process.stderr
        self._listener = threading.Thread(target=_listen, args=(process.stderr, self._said), daemon=True)
        self._listener.start()
        self._process, self._fresh = process, True
        return process

    def _reason(self, process: subprocess.Popen[bytes]) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        if self._listener:
            self._listener.join(timeout=1)  # for the last lines; a process that it started may hold the pipe open
        output = " ".join(self._said)
        if missing := re.search(r"No module named '?([\w.]+)", output):
            package = missing[1].partition(".")[0]
            return f"questions need the package '{package}' in the Python environment of TensorBoard"
        if re.search("memory|failed to map segment", output, re.IGNORECASE):  # by Python, a library or the loader
            return "the process that answers questions has too little memory for this model, half of the machine's"
        if process.returncode is not None and process.returncode < 0:
            name = signal.Signals(-process.returncode).name
            return f"the process that answers questions was ended by {name}, perhaps for lack of memory; ask again"
        last = next((line for line in reversed(self._said) if line.strip()), "it said nothing")
        return f"the process that answers questions ended: {last.strip()[:200]}"


def memory_limit() -> int:
    """Return the largest size of the memory of the process in bytes."""
    return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _exchanged(process: subprocess.Popen[bytes], line: bytes, deadline: float) -> bytes:
    """Write a line and return the line that answers it. Raises TimeoutError, EOFError if the process ended, OSError or
    ValueError."""
    assert process.stdin
    assert process.stdout
    writing, reading = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(writing, False)  # a stopped process does not read
    received = bytearray()
    with selectors.DefaultSelector() as pipes:  # unlike select, it waits for files of any number
        pipes.register(reading, selectors.EVENT_READ)
        pipes.register(writing, selectors.EVENT_WRITE)
        while not received.endswith(b"\n"):
            left = deadline - time.monotonic()
            ready = {key.fd for key, _ in pipes.select(max(left, 0))}
            if left <= 0 or not ready:
                raise TimeoutError
            if writing in ready:
                line = line[os.write(writing, line[:4096]) :]
                if not line:
                    pipes.unregister(writing)
            if reading in ready:
                block = os.read(reading, 1 << 16)
                if not block:
                    raise EOFError
                received += block
                if len(received) > LONGEST_ANSWER:
                    raise ValueError
    return bytes(received)


def _listen(stream: IO[bytes], lines: deque[str]) -> None:
    """Keep the last lines of a stream."""
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(2000):
            lines.append(line.decode("utf-8", "replace").rstrip())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, and close its pipes."""
    if process.poll() is None:  # otherwise its number may belong to another process
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if stream:
                stream.close()
