"""Measure TensorBoard with a hundred runs in its log directory.

Train a small translator with 200 evaluations and copy its folder: 100 runs with 200 recordings each, event files,
curves, pictures and texts (2.8 GB). Print a table: list of runs, opening a run, moving the slider, memory, the page in
headless Chromium, and loading of event files with and without what this project adds. Takes about ten minutes.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from selenium import webdriver

from attention_maps.tensorboard.runs import REMEMBERED, Runs
from benchmarks.attention.event_parts import PARTS, copies, last_step
from benchmarks.attention.made_runs import make_runs
from benchmarks.attention.server import Server, serving
from benchmarks.attention.tab import median
from benchmarks.attention.tab_drawing import browser, settled
from benchmarks.device import mean_seconds
from configs.errors import UserError
from configs.program import expanded

Row = tuple[str, str]
"""Description of a measurement, and its result with the unit."""

SLOW_RUNS = 20
"""Runs for TensorBoard's loader in Python, which takes about a second per run."""


@dataclass
class ManyRunsSettings:
    """Settings of `many_runs`."""

    runs: int = 100
    """Number of runs, at least 2."""

    recordings: int = 200
    """Number of recordings and evaluations of each run, at least 2."""

    folder: str = ""
    """Keep the log directory here and use it again; the default is a temporary folder."""


def many_runs(settings: ManyRunsSettings) -> None:
    """Measure TensorBoard and the Attention tab with many runs."""
    least = {"runs": settings.runs, "recordings": settings.recordings}
    if wrong := [f"{key}={value}: must be at least 2" for key, value in least.items() if value < 2]:
        raise UserError(*wrong)
    with tempfile.TemporaryDirectory() as temporary:
        logs = expanded(settings.folder or temporary) / "logs"
        if not logs.exists():
            make_runs(logs, settings.runs, settings.recordings)
        print("| measurement | result |\n|---|---|")
        for part in (requests, page, loading):
            for name, result in part(logs):
                print(f"| {name} | {result} |", flush=True)


def requests(logs: Path) -> Iterator[Row]:
    """Measure the responses of the Attention tab to a single client, and TensorBoard's memory."""
    yield "list of runs, in Python", once(lambda: Runs([("", str(logs))]).find())
    started = time.monotonic()
    with serving(logs, wait_for="static/index.js") as server:
        yield "start of TensorBoard, until it responds", f"{1000 * (time.monotonic() - started):.0f} ms"
        yield "list of runs, first request", once(lambda: server.get("index"))
        yield "list of runs, later requests", f"{median(lambda: server.get('index')):.1f} ms"
        pauses = [after_a_pause(lambda: server.get("index")) for _ in range(5)]
        yield "list of runs after 3 seconds, median of 5", f"{statistics.median(pauses):.1f} ms"
        runs = {name: run["steps"] for name, run in server.json("index")["runs"].items()}
        first, second, *_ = runs
        yield "runs x recordings in the list", f"{len(runs)} x {len(runs[first])}"
        yield "memory", memory(server)
        yield "open a run: metadata and maps of one layer", once(lambda: look(server, first, runs[first][-1]))
        moves = [milliseconds(partial(look, server, second, step)) for step in runs[second][-50:]]
        yield (
            "move the slider: the same, median of 50",
            f"{statistics.median(moves):.1f} ms, at most {max(moves):.1f} ms",
        )
        pauses = [after_a_pause(partial(look, server, second, step)) for step in runs[second][:5]]
        yield "move the slider after 3 seconds, median of 5", f"{statistics.median(pauses):.1f} ms"
        yield "curves of a run, first request", once(lambda: server.get(f"curves?{urlencode({'run': first})}"))
        yield "curves of a run, second request", once(lambda: server.get(f"curves?{urlencode({'run': first})}"))
        yield "a new recording, until it is in the list", f"{until_listed(server, logs, first):.1f} s"
        for name in runs:
            server.get(f"curves?{urlencode({'run': name})}")
        yield "memory after the curves of all runs", memory(server)
        for name, steps in runs.items():
            for step in steps[-20:]:
                look(server, name, step)
        yield "memory after 20 slider moves in every run", memory(server)


def look(server: Server, run: str, step: int) -> None:
    """Request what the page needs for one map."""
    where = {"run": run, "recording": f"step_{step:08d}"}
    server.get(f"meta?{urlencode(where)}")
    server.get(f"tensor?{urlencode(where | {'sample': 0, 'kind': 'cross', 'layer': 1})}")


def after_a_pause(action: Callable[[], object]) -> float:
    """Wait until the search for runs is due again; return the milliseconds of one call."""
    time.sleep(REMEMBERED + 1)
    return milliseconds(action)


def until_listed(server: Server, logs: Path, run: str) -> float:
    """Add a recording to a run and return the seconds until the list of runs contains it; remove it afterwards."""
    known = Runs([("", str(logs))]).run(run)
    step, file = list(known.steps.items())[-1]
    added = Path(file).with_name(f"step_{step + 1:08d}.safetensors")
    server.get("index")
    shutil.copyfile(file, added)
    started = time.monotonic()
    try:
        while step + 1 not in server.json("index")["runs"][run]["steps"]:
            time.sleep(0.1)
        return time.monotonic() - started
    finally:
        added.unlink()


def page(logs: Path) -> Iterator[Row]:
    """Measure the page in headless Chromium."""
    with serving(logs) as server, browser() as driver:
        address = f"http://localhost:{server.port}/data/plugin_entry.html?name=attention"
        opened = []

        def opening() -> None:
            driver.get(address)
            settled(driver)

        for _ in range(5):
            driver.get("about:blank")
            opened.append(milliseconds(opening))
        yield "page: open, until the maps are drawn", f"{statistics.median(opened):.0f} ms"
        yield "page: open the list of runs", f"{statistics.median(in_page(driver, OPEN) for _ in range(5)):.0f} ms"
        yield "page: filter the list", f"{statistics.median(in_page(driver, FILTER) for _ in range(5)):.0f} ms"
        driver.execute_script("document.querySelector('dialog[open]').close()")
        switched = [in_page(driver, SWITCH, number) for number in range(1, 11)]
        yield "page: switch to another run, median of 10", f"{statistics.median(switched):.0f} ms"
        yield (
            "page: memory of scripts",
            f"{driver.execute_script('return performance.memory.usedJSHeapSize') / 1e6:.0f} MB",
        )


OPEN = "document.querySelector('dialog[open]')?.close(); document.querySelector('.list-button').click();"
FILTER = """
    const filter = document.querySelector('dialog[open] input');
    filter.value = filter.value === 'lr 1' ? 'lr 2' : 'lr 1';
    filter.dispatchEvent(new Event('input'));
"""
SWITCH = """
    document.querySelector('.list-button').click();
    const entries = document.querySelectorAll('dialog[open] .list-entry');
    entries[arguments[0] % entries.length].click();
    delete document.documentElement.dataset.redraw;
"""


def in_page(driver: webdriver.Chrome, script: str, *arguments: object) -> float:
    """Run a script in the page and return the milliseconds until the page is drawn and laid out."""
    waiting = f"""
        const began = performance.now(), done = arguments[arguments.length - 1];
        {script}
        const look = () => {{
          const busy = document.querySelector('[aria-busy=true]') || !document.documentElement.dataset.redraw;
          if (busy) return setTimeout(look, 2);
          document.body.getBoundingClientRect();
          return done(performance.now() - began);
        }};
        setTimeout(look);
    """
    return float(driver.execute_async_script(waiting, *arguments))


def loading(logs: Path) -> Iterator[Row]:
    """Measure how long TensorBoard loads the event files, and with how much memory, by content of the files."""
    run = sorted(logs.glob("*/*"))[0]
    last = last_step(run, "loss")
    count = len(list(logs.glob("*/*")))
    for loader, flags, runs in (
        ("", (), count),
        (" by --load_fast=false", ("--load_fast=false",), min(SLOW_RUNS, count)),
    ):
        for part in PARTS:
            with tempfile.TemporaryDirectory() as folder:
                size = copies(part, run, Path(folder), runs) / 1e6
                started = time.monotonic()
                with serving(Path(folder), *flags) as server:
                    wait_until_loaded(server, runs, last)
                    took = time.monotonic() - started
                    yield f"load {runs} runs{loader}: {part}, {size:.0f} MB", f"{took:.1f} s, {memory(server)}"


def wait_until_loaded(server: Server, runs: int, step: int) -> None:
    """Wait until the last point of every training curve is loaded. Raises UserError after 5 minutes."""
    deadline = time.monotonic() + 300
    for number in range(runs):
        route = f"/data/plugin/scalars/scalars?{urlencode({'run': f'run-{number:03d}', 'tag': 'loss'})}"
        while True:
            try:
                if server.json(route)[-1][1] >= step:
                    break
            except UserError:
                pass  # TensorBoard does not know the run yet
            if time.monotonic() > deadline:
                raise UserError(f"run {number} was not loaded within 5 minutes")
            time.sleep(0.05)


def memory(server: Server) -> str:
    """Describe the resident memory of the processes of TensorBoard."""
    return ", ".join(f"{process} {size:.0f} MB" for process, size in server.megabytes().items())


def once(action: Callable[[], object]) -> str:
    """Describe the duration of one call."""
    return f"{milliseconds(action):.1f} ms"


def milliseconds(action: Callable[[], object]) -> float:
    """Return the duration of one call in milliseconds."""
    return 1000 * mean_seconds(action, 1)
