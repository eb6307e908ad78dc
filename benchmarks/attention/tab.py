"""Measure response times of the Attention tab's files and server.

Print a table of medians in milliseconds: writing a recording, finding 20,000 recordings, and TensorBoard's HTTP
responses to a single client. Takes a few seconds and 20 MB in the temporary folder.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from attention_maps.files import store
from attention_maps.record.recording import KINDS, Key, Measures, Prediction, Recording, Sample, tokens
from attention_maps.tensorboard.runs import Runs
from benchmarks.attention.server import serving
from benchmarks.device import mean_seconds
from benchmarks.inputs import NoSettings

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
    with serving(folder) as tensorboard:
        get = tensorboard.get
        one = "run=run&recording=step_00000000"
        yield f"curves of {STEPS} recordings, first request", median(lambda: get("curves?run=run"), 1)
        yield f"curves of {STEPS} recordings, later requests", median(lambda: get("curves?run=run"))
        yield "index", median(lambda: get("index"))
        yield "metadata of a recording", median(lambda: get(f"meta?{one}"))
        yield "maps of one layer", median(lambda: get(f"tensor?{one}&sample=0&kind=cross&layer=1&what=weights"))


def recording() -> Recording:
    """Create a recording of one sample with random encoder-decoder maps."""
    generator = np.random.default_rng(1)
    pieces = [f"▁piece{number}" for number in range(LENGTH)]
    text = tokens(range(LENGTH), pieces, frozenset({0}))
    weights: dict[Key, np.ndarray] = {
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
    measures: Measures = {
        name: {kind: generator.random((LAYERS, HEADS)).round(6).tolist() for kind in KINDS} for name in MEASURES
    }
    return Recording(0, (sample,), measures=measures)


def median(action: Callable[[], object], times: int = 21) -> float:
    """Return the median time of an action in milliseconds."""
    return 1000 * statistics.median(mean_seconds(action, 1) for _ in range(times))
