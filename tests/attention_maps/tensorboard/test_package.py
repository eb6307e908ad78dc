"""The installed plugin: cost of its import, and contents of the wheel."""

import configparser
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from attention_maps.files import file_names, header, store
from attention_maps.tensorboard.plugin import STATIC
from tests.conftest import ROOT, environment


def test_importing_the_plugin_is_cheap() -> None:
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


def test_writer_and_tab_use_the_same_format() -> None:
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
    pip(source, "wheel", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", str(built), ".")
    return zipfile.Path(next(built.glob("*.whl")))


def pip(folder: Path, *arguments: str) -> None:
    """Run pip without network and dependencies."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, "--no-index", "--no-deps"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_contents_of_the_wheel(wheel: zipfile.Path) -> None:
    """Guards against a wheel without the static files, which setuptools omits by default, or without the entry point,
    by which `tensorboard --logdir runs` finds plugins; and against one that takes names like `data` and `model` away
    from other packages."""
    packed = set(wheel.root.namelist())
    needed = {path.relative_to(ROOT).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    needed |= {path.relative_to(ROOT).as_posix() for path in STATIC.parent.glob("*.py")}
    assert needed
    assert needed - packed == set()
    (name,) = (name for name in packed if name.endswith(".dist-info/entry_points.txt"))
    entries = configparser.ConfigParser()
    entries.read_string(wheel.root.read(name).decode("utf-8"))
    assert dict(entries["tensorboard_plugins"]) == {"attention": "attention_maps.tensorboard.plugin:AttentionPlugin"}
    names = {name.partition("/")[0] for name in packed}
    assert {name for name in names if not name.endswith(".dist-info")} == {"attention_maps"}


USE = """
import importlib, json, pkgutil, sys
from importlib.metadata import entry_points

import data, model  # those of the environment

before = set(sys.modules)
(found,) = {one.load() for one in entry_points(group="tensorboard_plugins") if one.name == "attention"}
light = sorted(set(sys.modules) - before)
import attention_maps
for one in pkgutil.walk_packages(attention_maps.__path__, "attention_maps."):
    if not one.name.startswith("attention_maps.hugging_face"):
        importlib.import_module(one.name)
needed = sorted(sys.modules)

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from attention_maps.hugging_face import record_attention

tiny = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1)).eval()
with torch.no_grad(), record_attention(tiny) as recorded:
    tiny(torch.tensor([[3, 4, 5]]))
recorded.save("run")
files = [one.__file__ for name, one in sys.modules.items() if name.partition(".")[0] in ("attention_maps", "data")]
print(json.dumps({"light": light, "needed": needed, "files": files, "data": data.NAME, "all": sorted(sys.modules)}))
"""

OTHERS = ("configs", "data", "generation", "tab_answers", "interop", "interpretability", "model", "run", "training")
"""Names of this project that are not published; other projects may use them."""

TRAINING = {"datasets", "hydra", "omegaconf", "pyarrow", "sacrebleu", "sentencepiece"}
"""Packages that training alone needs."""


def test_installed_wheel_works_without_the_project(wheel: zipfile.Path, tmp_path: Path) -> None:
    """Guards a foreign `data` package against the wheel, and the wheel against a missing part: what works in a clone
    may import something that is not published."""
    site = tmp_path / "site"
    pip(tmp_path, "install", "--target", str(site), str(wheel.root.filename))
    for name in OTHERS:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"NAME = 'another {name}'\n", encoding="utf-8")
    environ = environment() | {"PYTHONPATH": str(site), "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["data"] == "another data"
    assert set(OTHERS) & set(told["all"]) == {"data", "model"}
    assert [file for file in told["files"] if not Path(file).is_relative_to(site)] == []
    assert "torch" not in told["light"]
    assert TRAINING & set(told["needed"]) == set()
    assert store.steps(tmp_path / "run").keys() == {0}
    alone = subprocess.run(
        [sys.executable, "-m", "attention_maps", "show", "run"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert "decoder self-attention" in alone.stdout, alone.stderr
    without = [sys.executable, "-S", "-m", "attention_maps", "show", "run"]  # -S: without the packages of this venv
    bare = subprocess.run(without, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    needs = "is not installed, which python -m attention_maps needs: pip install chumoku (in a clone: make install)"
    assert (bare.returncode, bare.stderr) == (2, f"error: numpy {needs}\n")
    worker = "from attention_maps.tensorboard.worker_process import WorkerProcess as W; W('asked').ask({})"
    asked = subprocess.run([sys.executable, "-c", worker], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert "questions need the whole project" in asked.stderr
