"""Who may import whom."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

MAY_IMPORT = {
    "configs": {"configs"},
    "model": {"model"},
    "data": {"data", "configs"},
    "attention_maps": {"attention_maps", "model", "configs"},
    "generation": {"generation", "model", "data", "configs"},
    "training": {"training", "generation", "model", "data", "attention_maps", "configs"},
}
"""The arrows of the house; `train.py` and `generate.py` import `training` and `configs` alone."""


def imported(path: Path) -> set[str]:
    """Top-level packages of ours that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names & set(MAY_IMPORT)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_downwards_only(package: str) -> None:
    """Guards: a circle, or a model that cannot be used without the trainer."""
    wrong = {
        str(path.relative_to(ROOT)): sorted(found)
        for path in (ROOT / package).rglob("*.py")
        if (found := imported(path) - MAY_IMPORT[package])
    }
    assert wrong == {}


@pytest.mark.parametrize("script", ["train.py", "generate.py"])
def test_scripts_hold_no_logic(script: str) -> None:
    """Guards: a script that grows into a module that nothing can import or test."""
    assert imported(ROOT / script) == {"training", "configs"}
    assert len((ROOT / script).read_text(encoding="utf-8").splitlines()) < 40


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_pages_are_finished_and_their_links_lead_somewhere(page: str) -> None:
    """Guards: a placeholder or a missing picture as the first thing that a visitor sees."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "@@" not in text
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_every_package_is_installed() -> None:
    """Guards: a new folder that works from the checkout and is missing from the wheel."""
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = {
        str(path.parent.relative_to(ROOT)).replace("/", ".")
        for name in MAY_IMPORT
        for path in (ROOT / name).rglob("__init__.py")
    }
    assert found == set(listed)
