"""The installed plugin: cost of its import, and contents of the wheel."""

import configparser
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest

from attention_maps.files import file_names, header, store
from attention_maps.tensorboard.plugin import STATIC
from tests.conftest import ROOT, environment


def test_importing_the_plugin_is_light() -> None:
    """Guards against a slow or failing import, which delays or stops TensorBoard in every environment with the
    plugin."""
    program = (
        "import sys, tensorboard.plugins.base_plugin, tensorboard.backend.http_util, werkzeug.wrappers\n"
        "before = set(sys.modules)\n"
        "import attention_maps.tensorboard.plugin\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "print(*{'torch', 'numpy', 'safetensors', 'matplotlib', 'hydra', 'sentencepiece'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    added, heavy = done.stdout.split("\n")[:2]
    assert {name.partition(".")[0] for name in added.split()} - set(sys.stdlib_module_names) == {"attention_maps"}
    assert heavy == ""


def test_writer_and_tab_speak_of_the_same_format() -> None:
    """Guards file names that the tab cannot read, and headers that only the writer accepts."""
    assert file_names.RECORDING.fullmatch(store.path("run", 100_000_000).name)
    assert header.LONGEST_HEADER < 100_000_000  # what the safetensors library itself accepts


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Build a wheel of the project without network from a copy of its sources."""
    source = tmp_path_factory.mktemp("source")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package in {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]}:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]):
        shutil.copy(ROOT / name, source / name)
    built = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index", "--no-cache-dir"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(built), "."]
    done = subprocess.run(command, cwd=source, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.Path(next(built.glob("*.whl")))


def test_the_wheel_holds_the_page_and_the_plugin(wheel: zipfile.Path) -> None:
    """Guards against a wheel without the static files, which setuptools omits by default."""
    packed = set(wheel.root.namelist())
    needed = {path.relative_to(ROOT).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    needed |= {path.relative_to(ROOT).as_posix() for path in STATIC.parent.glob("*.py")}
    assert needed
    assert needed - packed == set()


def test_the_wheel_announces_the_plugin(wheel: zipfile.Path) -> None:
    """Guards against a missing entry point, by which `tensorboard --logdir runs` finds plugins."""
    (name,) = (name for name in wheel.root.namelist() if name.endswith(".dist-info/entry_points.txt"))
    entries = configparser.ConfigParser()
    entries.read_string(wheel.root.read(name).decode("utf-8"))
    assert dict(entries["tensorboard_plugins"]) == {"attention": "attention_maps.tensorboard.plugin:AttentionPlugin"}
