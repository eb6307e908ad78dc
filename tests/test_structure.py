"""Package structure: which package may import which."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

BELOW_TRAINING = {"generation", "interpretability", "interop", "model", "data", "attention_maps", "configs"}

MAY_IMPORT = {
    "attention_maps": {"attention_maps"},
    "configs": {"configs", "attention_maps"},
    "model": {"model"},
    "data": {"data", "configs"},
    "interpretability": {"interpretability", "attention_maps", "model"},
    "interop": {"interop", "model", "data", "configs"},
    "generation": BELOW_TRAINING,
    "training": {"training", "interop"} | BELOW_TRAINING,
    "tab_answers": {"tab_answers", "run", "training"} | BELOW_TRAINING,
    "page": {"page", "tab_answers", "run", "training"} | BELOW_TRAINING,
}
"""Allowed imports of each package."""

SCRIPTS = {
    "train.py": {"training", "model", "data", "configs"},
    "run.py": {"training"} | BELOW_TRAINING,
    "generate.py": {"run", "training", "generation", "model", "data", "configs"},
    "evaluate.py": {"run", "training", "configs"},
    "export.py": {"run", "training", "interop", "page", "configs"},
    "demo.py": {"run", "configs"},
}
"""Allowed imports of the scripts, and of the class with which they load a run."""

OURS = {*MAY_IMPORT, *(script.removesuffix(".py") for script in SCRIPTS), "benchmarks"}


def sources(*suffixes: str) -> list[Path]:
    """Return the source files of the program and of its benchmarks, relative to the checkout."""
    rooms = [path for room in (*MAY_IMPORT, "benchmarks") for path in (ROOT / room).rglob("*")]
    return sorted(path.relative_to(ROOT) for path in [*rooms, *map(ROOT.joinpath, SCRIPTS)] if path.suffix in suffixes)


def imported(path: Path) -> set[str]:
    """Return our top-level packages and scripts that a file imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names & OURS


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_downwards_only(package: str) -> None:
    """Guards against circular imports, and a model that depends on the trainer."""
    wrong = {
        str(path.relative_to(ROOT)): sorted(result)
        for path in (ROOT / package).rglob("*.py")
        if (result := imported(path) - MAY_IMPORT[package])
    }
    assert wrong == {}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_import_what_their_story_needs(script: str) -> None:
    """Guards against implementation details in the scripts, and a script that depends on another script."""
    assert imported(ROOT / script) <= SCRIPTS[script]


def imported_files(path: Path) -> set[Path]:
    """Return our files that `path` imports anywhere, also in a function or for types alone, not counting parent
    packages."""
    result: set[Path] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [
                f"{node.module}.{alias.name}" if file_of(f"{node.module}.{alias.name}") else node.module
                for alias in node.names
            ]
        result |= {file for name in names if (file := file_of(name))}
    return result - {path}


def file_of(module: str) -> Path | None:
    """Return the file of one of our modules, relative to the checkout, or None."""
    if module.partition(".")[0] not in OURS:
        return None
    path = Path(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if (ROOT / file).exists()), None)


def test_no_circle_of_files() -> None:
    """Guards against two files that import each other."""
    imports = {path: imported_files(path) for path in sources(".py")}
    assert Path("training/trainer.py") in imports[Path("training/run_folder/initial_state.py")]
    list(TopologicalSorter(imports).static_order())  # CycleError lists the cycle


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_pages_are_finished_and_their_links_lead_somewhere(page: str) -> None:
    """Guards against placeholders and missing pictures."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "@@" not in text
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_wheel_has_one_name_and_all_its_packages() -> None:
    """Guards against a package that works in the checkout but is missing from the wheel, and against wheels that claim
    names like `data`, which others use too."""
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    result = {
        str(path.parent.relative_to(ROOT)).replace("/", ".") for path in (ROOT / "attention_maps").rglob("__init__.py")
    }
    assert result == set(listed)


def test_what_is_published_is_asked_for_through_configs() -> None:
    """Guards against two ways to import what every program shares."""
    askers = {path.parts[0] for path in sources(".py") if "attention_maps.base" in (ROOT / path).read_text("utf-8")}
    assert askers == {"attention_maps", "configs"}
    shared = {"attention_maps/base/" + path.name for path in (ROOT / "attention_maps" / "base").glob("*.py")}
    used = {str(file) for path in (ROOT / "configs").glob("*.py") for file in imported_files(path.relative_to(ROOT))}
    assert {file for file in used if not file.startswith("configs/")} <= shared


HARDWARE = {
    "is_cuda",
    "is_cpu",
    "device_type",
    "is_compiling",
    "is_grad_enabled",
    "is_autocast_enabled",
    "is_available",
}
"""Attributes that query the device, gradients or compilation."""


def questions_about_hardware(path: Path) -> list[str]:
    """Return the expressions of a file that query the device, the dtype, gradients or compilation."""
    result = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        asked = isinstance(node, ast.Attribute) and (
            node.attr in HARDWARE or ast.unparse(node).endswith(("device.type", "is_floating_point"))
        )
        if isinstance(node, ast.Compare):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            asked = any(side.endswith((".dtype", ".device", ".requires_grad")) for side in sides)
        if asked:
            result.append(ast.unparse(node))
    return result


def test_definitions_ask_nothing_about_hardware() -> None:
    """Guards against definitions that mix formulas with the choice of a kernel."""
    asking = {path.name for path in (ROOT / "model").glob("*.py") if questions_about_hardware(path)}
    assert asking == {"fast_kernels.py"}
