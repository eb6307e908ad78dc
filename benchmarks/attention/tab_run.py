"""Measure the Attention tab with a trained run: its recordings, the story of 200 of them, and questions to its model.

Print a table: number, size and share of the training time of the recordings; opening the run with 200 recordings in
headless Chromium, and moving the slider with the story open; the first and later answers to a text of 20 tokens. Take a
run of `make demo` for the figures of docs/attention.md. Takes a minute and, in the temporary folder, as much space as
200 recordings of the run.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attention_maps.files import store
from benchmarks.attention.server import Server, serving
from benchmarks.attention.tab_drawing import browser, redraws, settled
from benchmarks.inputs import existing

COPIES = 200
"""Recordings with which the run is opened."""
TOKENS = 20
"""Length of the text that is asked."""
OPENED, MOVED, ASKED = 5, 40, 20
"""How often each is measured."""

Row = tuple[str, str]
"""Description of a measurement, and its result with the unit."""


@dataclass
class TabRunSettings:
    """Settings of `tab_run`."""

    run: str = ""
    """Run folder, for example runs/demo_gpt."""


def tab_run(settings: TabRunSettings) -> None:
    """Measure the Attention tab with a trained run: recordings, story, slider, questions."""
    run = existing("run", settings.run, "folder")
    print("| measurement | result |\n|---|---|")
    for part in (recordings, page, questions):
        for name, result in part(run):
            print(f"| {name} | {result} |", flush=True)


def recordings(run: Path) -> Iterator[Row]:
    """Count the recordings of a run, and their cost."""
    found = store.steps(run)
    size = sum(path.stat().st_size for path in found.values()) / 1e6
    yield "recorded steps", str(len(found))
    yield "size of the recordings", f"{size:.1f} MB"
    progress = json.loads((run / "checkpoints" / "last" / "state.json").read_text(encoding="utf-8"))
    seconds, whole = progress["recording_seconds"], progress["seconds"]
    yield "recordings between evaluations", f"{seconds:.2f} s, {100 * seconds / whole:.2f} % of {whole:.0f} s"
    checkpoints = sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file())
    yield "checkpoints and early weights", f"{checkpoints / 1e6:.0f} MB"


def page(run: Path) -> Iterator[Row]:
    """Open the story of many recordings, and move the slider."""
    with tempfile.TemporaryDirectory() as folder:
        last = store.load(list(store.steps(run).values())[-1])
        for number in range(COPIES):
            store.save(replace(last, step=10 * number), Path(folder) / "copied", durable=False)
        opened = []
        for _ in range(OPENED):
            with serving(Path(folder), wait_for="static/index.js") as server, browser() as driver:
                address = f"http://localhost:{server.port}/data/plugin_entry.html?name=attention#attention"
                driver.get(f"{address}&p.attention.view=map")  # the scripts are read, and nothing else is known
                driver.get("about:blank")
                started = time.perf_counter()
                driver.get(address)
                settled(driver)
                opened.append(time.perf_counter() - started)
        yield f"list {COPIES} recordings and draw their story", seconds_of(opened)
        with serving(Path(folder)) as server, browser() as driver:
            address = f"http://localhost:{server.port}/data/plugin_entry.html?name=attention#attention"
            moves = redraws(driver, address, MOVED)
        yield f"move the slider with the story open, {MOVED} times", milliseconds_of(moves)


def questions(run: Path) -> Iterator[Row]:
    """Ask the model of a run, which is copied: a question is about the runs below one folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(run, Path(folder) / run.name, symlinks=True)
        sample = store.outline(list(store.steps(run).values())[-1])[0].samples[0]
        side = sample.reads if sample.source is None else sample.source
        words = "".join(side.pieces).replace("▁", " ").replace("</s>", "").split()
        key = "text" if sample.source is None else "source"
        with serving(Path(folder)) as server:
            text, tokens = "", 0
            question = {"run": run.name, key: words[0]}
            first = asked(server, question)
            while tokens < TOKENS:
                text = " ".join([*text.split(), words[len(text.split()) % len(words)]])
                question[key] = text
                answer = server.post("ask", question)
                tokens = len(answer["tokens"] if answer["source"] is None else answer["source"])
            later = [asked(server, question) for _ in range(ASKED)]
            without = [asked(server, question | {"removed": [removed_head(answer["task"])]}) for _ in range(ASKED)]
        yield "first answer, with the start of the process", f"{first:.2f} s"
        yield f"later answers, {tokens} tokens, {ASKED} times", milliseconds_of([1000 * one for one in later])
        yield "the same, without a head", milliseconds_of([1000 * one for one in without])


def removed_head(task: str) -> list[object]:
    """Return a head that every model of a task has."""
    return ["decoder" if task == "gpt" else "cross", 0, 0]


def asked(server: Server, question: Mapping[str, object]) -> float:
    """Return the seconds until a question is answered."""
    started = time.perf_counter()
    server.post("ask", question)
    return time.perf_counter() - started


def seconds_of(found: list[float]) -> str:
    """Describe several durations in seconds."""
    return f"median {statistics.median(found):.2f} s, at least {min(found):.2f} s, at most {max(found):.2f} s"


def milliseconds_of(found: list[float]) -> str:
    """Describe several durations in milliseconds."""
    return f"median {statistics.median(found):.0f} ms, at least {min(found):.0f} ms, at most {max(found):.0f} ms"
