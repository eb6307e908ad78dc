"""Questions about a run, and the recordings that answer them, in a temporary folder that ends with TensorBoard."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

from attention_maps.files.errors import NotThere, Refusal
from attention_maps.files.file_names import ASKED
from attention_maps.files.header import opened
from attention_maps.tensorboard.worker_process import WorkerProcess

LARGEST_CONFIG = 2**20
"""Bytes of a config.yaml that are searched; ours have a few thousand."""
KEPT = 64
"""Number of recordings kept, of all runs together."""
LARGEST = 2**30
"""Bytes of the recordings kept; those of the newest question are always kept."""
DECODING = ("temperature", "top_k", "top_p", "seed", "beam_size")
"""Parts of a question that say how a text is continued or translated: settings of generate.py."""
KEYS = ("checkpoint", "text", "source", "target", "reverse", "continue", *DECODING, "removed", "how", "patch")
"""Parts of a question that a browser may set, besides its run and the last number that it has seen."""
LAST_NUMBER = 10**9
"""A browser that has seen larger numbers is answered as if it had seen this one: file names have at most 15 digits."""
CIRCUIT_KEYS = ("checkpoint", "circuit", "distance", "token")
"""Parts of a question about the weights of a head that a browser may set."""
EFFECTS_KEYS = ("recording", "how")
"""Parts of a question about each head alone in the text of an earlier answer that a browser may set."""
STEP = re.compile(r"step-([0-9]{1,15})(?:-[0-9]{1,6})?")
WEIGHTS = re.compile(r"weights-([0-9]{1,15})")


class Asked(NamedTuple):
    """One recording made for a question."""

    path: str
    answer: dict[str, Any]


class Questions:
    """Forwards questions to the worker process, started by the first one, and keeps its last answers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: OrderedDict[tuple[str, int], Asked] = OrderedDict()  # by run and number, the oldest first
        self._last: dict[str, int] = {}  # the last number given in each run
        self._files = 0
        self._started: tuple[WorkerProcess, Path] | None = None

    def _start(self) -> tuple[WorkerProcess, Path]:
        """Return the process that answers, and the folder of its recordings."""
        with self._lock:
            if self._started is None:
                folder = Path(tempfile.mkdtemp(prefix="attention-questions-"))
                self._started = WorkerProcess(str(folder)), folder
                atexit.register(self.close)
            return self._started

    @property
    def worker(self) -> WorkerProcess:
        """The process that answers."""
        return self._start()[0]

    def close(self) -> None:
        """End the process and delete the folder."""
        if self._started:
            worker, folder = self._started
            worker.close()
            shutil.rmtree(folder, ignore_errors=True)

    def ask(self, run: str, folder: str, question: dict[str, Any]) -> dict[str, Any]:
        """Answer a question about a run, whose recordings are in `folder`: {recording, whole_recording, …answer}.

        `after` of the question is the last number that the browser has seen, possibly given by an earlier TensorBoard,
        whose answers the page still has in memory. Raises Refusal.
        """
        _refuse_others(question, {*KEYS, "run", "after"}, "a question")
        after = question.get("after", 0)
        if type(after) is not int or after < 0:
            raise Refusal("'after' must be the number of an answer, or 0")
        after = min(after, LAST_NUMBER)
        worker, recordings = self._start()
        with self._lock:
            self._files += 2
            to, whole_to = (str(recordings / f"{self._files - back:05d}.safetensors") for back in (0, 1))
        parts = {key: question[key] for key in KEYS if key in question}
        paths = {"run": str(Path(folder).absolute().parent), "to": to, "whole_to": whole_to}
        recordings.mkdir(mode=0o700, exist_ok=True)  # a cleaner of temporary files may have removed it
        try:
            answer = worker.ask(parts | paths)
        except BaseException:
            for path in (to, whole_to):
                with contextlib.suppress(OSError):
                    Path(path).unlink()
            raise
        with self._lock:  # a refused question takes no number
            last = max(self._last.get(run, 0), after + after % 2)
            whole, number = last + 1, last + 2
            self._last[run] = number
        changed = answer.get("whole") is not None
        named = {"run": run, "recording": self._id(number), "whole_recording": self._id(whole) if changed else None}
        asked = {key: parts[key] for key in ("removed", "how", "patch") if key in parts}
        kept = {(run, number): Asked(to, named | {"asked": asked} | answer)}
        if changed:
            kept = {(run, whole): Asked(whole_to, of_the_whole_model(answer) | {"recording": self._id(whole)})} | kept
        self._keep(kept)
        return named | {"asked": asked} | answer

    def circuits(self, folder: str, question: dict[str, Any]) -> dict[str, Any]:
        """Answer what the weights of a head of a run say, whose recordings are in `folder`. Raises Refusal."""
        _refuse_others(question, {*CIRCUIT_KEYS, "run"}, "a question about a head")
        if "circuit" not in question:
            raise Refusal("'circuit' must be a head, [kind, layer, head]")
        return self.worker.ask(question | {"run": str(Path(folder).absolute().parent)})

    def effects(self, run: str, folder: str, question: dict[str, Any]) -> dict[str, Any]:
        """Answer what each head alone does in the text of an earlier answer of a run. Raises Refusal."""
        _refuse_others(question, {*EFFECTS_KEYS, "run"}, "a question about each head")
        recording = question.get("recording")
        if not isinstance(recording, str):
            raise Refusal("'recording' must be that of an answer, such as asked_00002")
        asked = self._find(run, recording)
        model = {"run": str(Path(folder).absolute().parent), "checkpoint": asked.answer["checkpoint"]}
        return self.worker.ask(model | {"effects": asked.path, "how": question.get("how", "zero")})

    def listed(self, run: str) -> list[int]:
        """Return the numbers of the recordings of a run, ascending."""
        with self._lock:
            return sorted(number for name, number in self._asked if name == run)

    def clear(self, run: str) -> None:
        """Forget the answers of a run, with their recordings. Their numbers are not given again."""
        with self._lock:
            for key in [key for key in self._asked if key[0] == run]:
                self._forget(key)

    def path(self, run: str, recording: str) -> str:
        """Return the path of a recording such as `asked_00001`. Raises NotThere."""
        return self._find(run, recording).path

    def answer(self, run: str, recording: str) -> dict[str, Any]:
        """Return the answer with which a recording was made. Raises NotThere."""
        return self._find(run, recording).answer

    def _find(self, run: str, recording: str) -> Asked:
        match = ASKED.fullmatch(recording)
        with self._lock:
            asked = self._asked.get((run, int(match[1]))) if match else None
        if asked is None:
            raise NotThere(f"the answer '{recording[:40]}' is not kept (any more): ask again")
        return asked

    def _keep(self, kept: dict[tuple[str, int], Asked]) -> None:
        """Keep the recordings of a question. The oldest questions are dropped, each with both of its recordings: one is
        compared with the other."""
        with self._lock:
            self._asked.update(kept)
            sizes = {key: _size(asked.path) for key, asked in self._asked.items()}
            while len(sizes) > len(kept) and (len(sizes) > KEPT or sum(sizes.values()) > LARGEST):
                oldest = next(iter(self._asked))
                for key in [key for key in self._asked if _question(key) == _question(oldest)]:
                    del sizes[key]
                    self._forget(key)

    def _forget(self, key: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            Path(self._asked.pop(key).path).unlink()

    @staticmethod
    def _id(number: int) -> str:
        return f"asked_{number:05d}"


def _question(key: tuple[str, int]) -> tuple[str, int]:
    """Return what tells apart the questions of all runs, from the run and number of a recording: the numbers of one
    question are a pair, of which the whole model has the first."""
    run, number = key
    return run, (number + 1) // 2


def _refuse_others(question: dict[str, Any], keys: set[str], name: str) -> None:
    if unknown := sorted(set(question) - keys):
        raise Refusal(f"'{unknown[0][:40]}' is not part of {name}")


def of_the_whole_model(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an answer that belongs to the recording of the whole model."""
    rows = [[[token, piece, before, None] for token, piece, _, before in row] for row in answer.get("next", [])]
    rows = [sorted(row, key=lambda token: -(token[2] or 0.0)) for row in rows]
    return answer | answer["whole"] | {"next": rows, "whole": None, "whole_recording": None, "asked": {}}


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def both_directions(folder: str) -> bool:
    """Return whether a run, whose recordings are in `folder`, was trained to translate in both directions."""
    try:
        with opened(str(Path(folder).absolute().parent / "config.yaml")) as file:
            config = file.read(LARGEST_CONFIG)
    except NotThere:
        return False
    return re.search(rb"^  both_directions: true$", config, re.MULTILINE) is not None


def checkpoints(folder: str) -> list[dict[str, Any]]:
    """Return the kept checkpoints of a run, whose recordings are in `folder`, by step: {name, step, best, last}; also
    the early weights of steps without a checkpoint."""
    folder = str(Path(folder).absolute().parent / "checkpoints")
    links = {}
    for link in ("best", "last"):
        with contextlib.suppress(OSError):
            links[link] = os.path.basename(os.readlink(f"{folder}/{link}"))  # noqa: PTH115, PTH119 (a link to itself)
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    saved = [(int(match[1]), name) for name in names if (match := STEP.fullmatch(name))]
    steps = {step for step, _ in saved}
    early = [(int(match[1]), name) for name in names if (match := WEIGHTS.fullmatch(name))]
    saved += [(step, name) for step, name in early if step not in steps]
    return [
        {"name": name, "step": step, "best": links.get("best") == name, "last": links.get("last") == name}
        for step, name in sorted(saved)
    ]
