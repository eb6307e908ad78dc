"""Fixtures: recordings for the tab, the plugin in this process, and TensorBoard as a process."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.application import TensorBoardWSGI
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client, TestResponse

from attention_maps.files import store
from attention_maps.record.recording import Antecedents, Part, Recording, Score
from attention_maps.tensorboard.plugin import AttentionPlugin
from tests.conftest import ROOT, environment


@pytest.fixture
def complete(lesson: Recording) -> Recording:
    """Return the lesson's recording with every optional field."""
    (sample,) = lesson.samples
    values = {
        key: np.linspace(0.5, 2, 2 * w.shape[2]).astype(np.float16).reshape(2, -1) for key, w in sample.weights.items()
    }
    rollout = {kind: sample.weights[kind, 1][0] for kind in ("encoder", "decoder")}
    sample = replace(
        sample,
        values=values,
        rollout=rollout,
        links=((0, 0), (1, 2), (2, 2)),
        antecedents=Antecedents("reads", ((2, 3, 0, 2),)),
        lens=(sample.predictions,),
        attribution=np.ones((1 + len(sample.predictions[0]), 3, len(sample.reads)), np.float16),
        logits=np.full((1 + len(sample.predictions[0]), len(sample.reads)), 3, np.float16),
    )
    heads = {kind: [[0.25, 0.5], [1.0, float("nan")]] for kind in ("encoder", "decoder", "cross")}
    return replace(
        lesson,
        samples=(sample,),
        measures={"entropy": heads, "alignment_error": {"cross": [[20.5, 80.0], [50.0, 50.0]]}},
        labels={"decoder": [["first token", ""], ["broad", ""]], "cross": [["alignment", ""], ["", ""]]},
        scores=(
            Score("alignment_error", "best head", 20.5, "cross", 0, 0, "predicts", 40),
            Score("alignment_error", "diagonal", 70.0),
        ),
        parts=(Part("embedding"), Part("cross", 1, 0), Part("mlp", 1)),
        about={"title": "Lesson 1", "licence": "CC BY 4.0"},
    )


@pytest.fixture
def logdir(complete: Recording, lesson: Recording, tmp_path: Path) -> Path:
    """Create two runs at different depths: three steps with two texts, and a single step of an older version."""
    folder = tmp_path / "logs"
    for step in (2000, 0, 1000):
        store.save(replace(complete, step=step), folder / "translator")
    for _ in range(2):
        store.save_generated(complete, folder / "translator")
    store.save(replace(lesson, step=7), folder / "sweep" / "0")
    (folder / "without_maps" / "attention").mkdir(parents=True)
    return folder


class Tab:
    """The plugin behind TensorBoard's routing, in this process."""

    def __init__(self, logdir: Path | str | None, spec: str | None = None, name: str | None = None) -> None:
        """Create a plugin with empty caches. name: of `tensorboard --host`."""
        flags = argparse.Namespace(logdir_spec=spec, host=name)
        self.plugin = AttentionPlugin(TBContext(logdir=None if logdir is None else str(logdir), flags=flags))
        self.client = Client(TensorBoardWSGI([self.plugin]))

    def get(self, route: str, **arguments: Any) -> TestResponse:
        """Request `data/plugin/attention/<route>`."""
        return self.client.get(f"/data/plugin/attention/{route}", query_string=arguments)

    def json(self, route: str, **arguments: Any) -> Any:
        """Return the parsed JSON of a response that must be successful."""
        answer = self.get(route, **arguments)
        assert (answer.status_code, answer.mimetype) == (200, "application/json"), answer.text
        return answer.get_json()

    def refused(self, code: int, route: str, **arguments: Any) -> str:
        """Return the sentence of a response that must be an error with this status."""
        return refusal(self.get(route, **arguments), code)


def refusal(answer: TestResponse, code: int) -> str:
    """Check an error response and return its sentence."""
    assert (answer.status_code, answer.mimetype) == (code, "text/plain"), answer.text
    assert answer.text
    assert "\n" not in answer.text
    return answer.text


@pytest.fixture
def tab() -> type[Tab]:
    """Return the class `Tab`: `tab(logdir)` is the plugin for a log directory."""
    return Tab


Serve = Callable[..., str]


@pytest.fixture
def tensorboard() -> Iterator[Serve]:
    """`tensorboard("--logdir", …)`: start TensorBoard with the tab, as `serving` does -> its address."""
    with contextlib.ExitStack() as stack:
        yield lambda *flags, **how: stack.enter_context(serving(*flags, **how))


@contextlib.contextmanager
def serving(
    *flags: str | Path,
    port: int = 0,
    command: tuple[str, ...] = ("-m", "attention_maps.tensorboard"),
    path: Path | None = None,
) -> Iterator[str]:
    """Start TensorBoard with the tab, by default on a free port; yield its address with a slash at the end.

    `command` are the arguments of Python, the module of this project by default; `path` comes first on Python's path.
    """
    variables = environment()
    if path:
        variables["PYTHONPATH"] = f"{path}{os.pathsep}{variables['PYTHONPATH']}"
    process = subprocess.Popen(
        [sys.executable, *command, "--host", "127.0.0.1", "--port", str(port), *flags],
        cwd=ROOT,
        env=variables,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = address_of(process)
        threading.Thread(target=process.communicate, daemon=True).start()  # a full pipe would block it
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def address_of(process: subprocess.Popen[str]) -> str:
    """Wait until a TensorBoard whose standard error is a pipe says its address, and return it."""
    output = ""
    assert process.stderr
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if not select.select([process.stderr], [], [], 1)[0]:
            continue
        block = os.read(process.stderr.fileno(), 4096)  # `readline` would hide further lines from `select`
        output += block.decode()
        if match := re.search(r"TensorBoard \S+ at (http\S+)\s", output):
            return match[1]
        if not block:
            break
    raise AssertionError(f"TensorBoard did not start:\n{output}")
