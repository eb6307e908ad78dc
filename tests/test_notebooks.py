"""The notebooks: made from the Python files beside them, and executed as Jupyter does."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT

DOCS = ROOT / "docs"
TINY = ["trainer.steps=20", "model.layers=2", "data.stories=600", "trainer.threads=1", "attention.examples=1"]


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    """The names of make_notebooks.py."""
    return runpy.run_path(str(DOCS / "make_notebooks.py"))


def executed(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Execute a notebook with `folder` as the working directory -> the outputs of its code cells, by source."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    result = {}
    for cell in notebook.cells:
        outputs = [output.get("text") or str(output.get("data")) for output in cell.get("outputs", [])]
        result[cell.source] = "".join(outputs)
    return result


def test_the_notebooks_are_those_of_the_python_files(maker: dict[str, Any]) -> None:
    """Guards against notebooks that differ from the tested files: run docs/make_notebooks.py."""
    assert len(maker["SOURCES"]) == 6
    for source in maker["SOURCES"]:
        assert source.with_suffix(".ipynb").read_text(encoding="utf-8") == maker["notebook"](source), source.name


@pytest.mark.slow
def test_the_quickstart_trains_writes_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the whole notebook, with fewer steps, a smaller model and a run folder elsewhere."""
    notebook = nbformat.read(DOCS / "quickstart.ipynb", as_version=4)
    small = ", ".join(f'"{setting}"' for setting in [*TINY, f"data.cache={tmp_path}/cache"])
    for before, after in (('"trainer.minutes=1.5"', small), ("os.chdir(Path(", f"os.chdir({str(tmp_path)!r}); (Path(")):
        assert sum(before in cell.source for cell in notebook.cells) == 1
        for cell in notebook.cells:
            cell.source = cell.source.replace(before, after)
    outputs = executed(notebook, DOCS, monkeypatch)
    (trained,) = [output for source, output in outputs.items() if "train(compose_run" in source]
    assert "finished at step 20" in trained
    (written,) = [output for source, output in outputs.items() if "generate(" in source]
    assert written.startswith("Lisa had to carry a big box. Emi came.")
    pages = [
        output for source, output in outputs.items() if source.startswith("show_recording") or "show_run(" in source
    ]
    assert len(pages) == 2
    assert all("<iframe sandbox=" in page and "chumoku-archive" in page for page in pages)
    (weights,) = [output for source, output in outputs.items() if "recording.weight(" in source]
    assert weights.count("He attends to Ken with") == 2
    assert (tmp_path / "runs" / "demo_gpt" / "checkpoints" / "last").exists()


@pytest.mark.slow
def test_a_lesson_opens_as_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against lessons that find their helpers only as scripts, and pictures that a notebook does not show."""
    monkeypatch.setenv("LESSON_IMAGES", str(tmp_path))
    notebook = nbformat.read(next(DOCS.glob("lessons/2_*.ipynb")), as_version=4)
    outputs = "".join(executed(notebook, DOCS / "lessons", monkeypatch).values())
    assert "image/png" in outputs
    assert "agrees" in outputs
    assert "DIFFERS" not in outputs
