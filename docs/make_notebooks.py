"""Write the notebooks of the quickstart and the lessons, without outputs, from the Python files beside them:
`python docs/make_notebooks.py`. In these files `# %%` begins a cell."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat

DOCS = Path(__file__).resolve().parent
SOURCES = [DOCS / "quickstart.py", *sorted(DOCS.glob("lessons/[0-9]_*.py"))]


def notebook(source: Path) -> str:
    """Return the notebook of a Python file, as JSON."""
    made = jupytext.read(source, fmt="py:percent")
    del made.cells[0]  # the docstring of the file
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # jupytext draws them at random
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.metadata = nbformat.from_dict({"kernelspec": kernel})
    return nbformat.writes(made) + "\n"


if __name__ == "__main__":
    for source in SOURCES:
        source.with_suffix(".ipynb").write_text(notebook(source), encoding="utf-8")
        print(source.with_suffix(".ipynb"))
