"""Work per request with many runs and recordings: counted, not timed."""

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attention_maps.files import store
from attention_maps.record.recording import Recording
from tests.attention_maps.tensorboard.conftest import Tab

EVENTS: list[tuple[str, str]] = []
"""Files opened and folders listed by this process since the list was cleared, as (audit event, path)."""


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.scandir", "os.listdir"):
        EVENTS.append((event, str(arguments[0])))


@pytest.fixture(scope="module", autouse=True)
def audit() -> None:
    """Record the opens of this process; an audit hook cannot be removed."""
    sys.addaudithook(_note)


def done_by(tab: Tab, logs: Path, route: str, **arguments: Any) -> dict[str, list[str]]:
    """Request a route; return the recordings opened and the folders listed below the log directory."""
    EVENTS.clear()
    tab.json(route, **arguments)
    mine = [(event, path) for event, path in EVENTS if path.startswith(str(logs))]
    return {
        "opened": sorted({path for event, path in mine if event == "open"}),  # open() with an opener is two events
        "listed": [path for event, path in mine if event != "open"],
    }


def make(logs: Path, complete: Recording, runs: int, steps: int) -> None:
    """Create runs in two sweeps, with real recordings."""
    for run in range(runs):
        for step in range(steps):
            store.save(replace(complete, step=step), logs / f"sweep-{run % 2}" / f"run-{run}")


def test_the_list_of_runs_opens_no_recording(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against a list that takes longer with every recording: 100 runs of 200 recordings are 20,000 files."""
    runs = 4
    make(tmp_path, complete, runs, steps=5)
    server = tab(tmp_path)
    did = done_by(server, tmp_path, "index")
    assert did["opened"] == []
    assert len(did["listed"]) == len(set(did["listed"])) == 1 + 2 + 2 * runs  # each folder once
    assert server.plugin.is_active()
    assert done_by(server, tmp_path, "index") == {"opened": [], "listed": []}


def test_a_request_for_one_run_touches_no_other(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against a slider that waits for a search of all runs whenever the last search is older than 2 seconds."""
    make(tmp_path, complete, 6, 4)
    server = tab(tmp_path)
    server.json("index")
    server.plugin._runs._until = float("-inf")  # the next search is due
    folder = tmp_path / "sweep-1" / "run-3" / "attention"
    where = {"run": "sweep-1/run-3", "recording": "step_00000002"}
    opened = [str(folder / "step_00000002.safetensors")]
    assert done_by(server, tmp_path, "meta", **where) == {"opened": opened, "listed": []}
    did = done_by(server, tmp_path, "curves", run="sweep-1/run-3")
    assert did["listed"] == [str(folder)]
    assert did["opened"] == [str(folder / f"step_{step:08d}.safetensors") for step in range(4)]


def test_maps_are_shown_while_another_request_searches(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against a page that stands still while a slow disk is searched for runs."""
    make(tmp_path, complete, 2, 2)
    server = tab(tmp_path)
    before = server.json("index")
    server.plugin._runs._until = float("-inf")
    answers: list[Any] = []

    def ask() -> None:
        answers.append(server.json("index"))
        answers.append(server.json("meta", run="sweep-0/run-0", recording="step_00000001")["step"])
        answers.append(server.json("curves", run="sweep-0/run-0")["steps"])

    with server.plugin._runs._lock:
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(timeout=30)
        assert answers == [before, 1, [0, 1]]


def test_a_new_recording_of_a_known_run_can_be_shown_before_the_next_search(
    tab: type[Tab], complete: Recording, tmp_path: Path
) -> None:
    """Guards against a recording that is refused although it was listed to another page."""
    make(tmp_path, complete, 2, 1)
    server = tab(tmp_path)
    server.json("index")
    server.plugin._runs._until = float("inf")
    store.save(replace(complete, step=7), tmp_path / "sweep-0" / "run-0")
    assert server.json("meta", run="sweep-0/run-0", recording="step_00000007")["step"] == 7
    assert server.json("curves", run="sweep-0/run-0")["steps"] == [0, 7]
    assert "(any more)" in server.refused(404, "meta", run="sweep-0/run-0", recording="step_00000008")
