"""Measure response times of the Attention tab's files and server.

Print a table of medians in milliseconds: writing a recording, finding 20,000 recordings, and TensorBoard's HTTP
responses to a single client. Takes a few seconds and 20 MB in the temporary folder.
"""

from __future__ import annotations

import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from attention_maps.files import store
from attention_maps.record.recording import KINDS, Prediction, Recording, Sample, tokens
from attention_maps.tensorboard.runs import Runs
from benchmarks.gpu.timing import mean_seconds
from benchmarks.harness import ROOT
from benchmarks.inputs import NoSettings
from configs.errors import UserError

LAYERS, HEADS, LENGTH = 6, 8, 128
RUNS, STEPS = 200, 100
MEASURES = ("entropy", "first", "special", "previous", "diagonal", "alignment_error", "antecedent", "importance")

Row = tuple[str, float]
"""Description of a measurement, and its median in milliseconds."""


def tab(_: NoSettings) -> None:
    """Measure response times of the Attention tab: writing, finding and serving recordings."""
    print("| measurement | ms |\n|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for number, part in enumerate((files, listing, server)):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            for name, figure in part(folder):
                print(f"| {name} | {figure:.1f} |", flush=True)


def files(folder: Path) -> Iterator[Row]:
    """Measure writing one recording."""
    made = recording()
    figure = median(lambda: store.save(made, folder), 9)
    size = store.path(folder, made.step).stat().st_size / 1e6
    yield f"write a recording: {LAYERS} layers x {HEADS} heads, three maps of {LENGTH} tokens, {size:.1f} MB", figure


def listing(folder: Path) -> Iterator[Row]:
    """Measure finding recordings, without reading their contents."""
    for run in range(RUNS):
        run_folder = folder / f"sweep_{run % 10}" / f"run_{run}"
        (run_folder / "checkpoints" / "last").mkdir(parents=True)
        (run_folder / "attention").mkdir()
        for step in range(STEPS):
            store.path(run_folder, step * 1000).touch()
    assert sum(len(run.steps) for run in Runs([("", str(folder))]).find().values()) == RUNS * STEPS
    yield f"find {RUNS} runs x {STEPS} recordings", median(lambda: Runs([("", str(folder))]).find(), 9)


def server(folder: Path) -> Iterator[Row]:
    """Measure TensorBoard's HTTP responses. The recordings of the run are hard links to one file."""
    first = store.save(recording(), folder / "run")
    for step in range(1, STEPS):
        os.link(first, store.path(folder / "run", step * 1000))
    with serving(folder) as port:
        one = "run=run&recording=step_00000000"
        yield f"curves of {STEPS} recordings, first request", median(lambda: get(port, "curves?run=run"), 1)
        yield f"curves of {STEPS} recordings, later requests", median(lambda: get(port, "curves?run=run"))
        yield "index", median(lambda: get(port, "index"))
        yield "metadata of a recording", median(lambda: get(port, f"meta?{one}"))
        yield "maps of one layer", median(lambda: get(port, f"tensor?{one}&sample=0&kind=cross&layer=1&what=weights"))


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Run TensorBoard on a folder -> its port, once it responds."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "attention_maps.tensorboard", "--logdir", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def recording() -> Recording:
    """Create a recording of one sample with random encoder-decoder maps."""
    generator = np.random.default_rng(1)
    pieces = [f"▁piece{number}" for number in range(LENGTH)]
    text = tokens(range(LENGTH), pieces, frozenset({0}))
    weights = {
        (kind, layer): generator.dirichlet(np.ones(LENGTH), (HEADS, LENGTH)).astype(np.float16)
        for kind in KINDS
        for layer in range(LAYERS)
    }
    guesses = tuple(Prediction(number, pieces[number], 0.2) for number in range(5))
    sample = Sample(
        reads=text,
        predicts=text,
        source=text,
        losses=(1.2345,) * LENGTH,
        predictions=(guesses,) * LENGTH,
        weights=weights,
        norms={key: maps[:, :, 0] for key, maps in weights.items()},
        name="probe 1",
        length=LENGTH,
        source_length=LENGTH,
    )
    measures = {
        name: {kind: generator.random((LAYERS, HEADS)).round(6).tolist() for kind in KINDS} for name in MEASURES
    }
    return Recording(0, (sample,), measures=measures)


def get(port: int, route: str) -> None:
    """Send one request like a browser. Raises UserError unless the status is 200."""
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    connection.request("GET", f"/data/plugin/attention/{route}", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise UserError(f"{route}: {answer.status} {content!r}")


def wait_for(port: int, process: subprocess.Popen) -> None:
    """Wait until TensorBoard responds. Raises UserError if it exits or does not respond within 60 seconds."""
    for _ in range(600):
        if process.poll() is not None:
            raise UserError(f"TensorBoard ended with exit code {process.returncode}")
        try:
            return get(port, "index")
        except OSError:
            time.sleep(0.1)
    raise UserError("TensorBoard did not respond within 60 seconds")


def median(action: Callable[[], object], times: int = 21) -> float:
    """Return the median time of an action in milliseconds."""
    return 1000 * statistics.median(mean_seconds(action, 1) for _ in range(times))
