"""Shared fixtures: a small text, and the two programs as subprocesses."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent

TINY = (
    "model.layers=1 model.heads=2 model.width=32 model.context=32 trainer.steps=6 trainer.evaluate_every=3"
    " trainer.log_every=1 trainer.batch_size=4 trainer.samples=1 trainer.evaluate_sentences=8 data.sentences=600"
    " data.stories=300 data.batch_tokens=512 tokenizer.vocab_size=700 attention.examples=1 schedule.warmup=2"
).split()
"""The real config, reduced so that a run takes a second or two."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SLOW = {"program", "in_process", "trained", "tensorboard", "real", "wheel", "both_runs"}
BROWSER = {"driver", "firefox", "browser", "chromium"}
"""Fixtures that start processes or a browser, or read a real corpus; tests that use one of them are marked
automatically."""

FILE_SIZE = resource.getrlimit(resource.RLIMIT_FSIZE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make quick` skips, by their fixtures; other slow tests are marked individually."""
    for item in items:
        if "long" in item.keywords:
            item.add_marker(pytest.mark.slow)
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & BROWSER:
            item.add_marker(pytest.mark.browser)
        if fixtures & SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Reset a test's file size limit as soon as the test ends: pytest writes its results, possibly to a file, before
    fixtures are torn down."""
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, FILE_SIZE)


def environment() -> dict[str, str]:
    """Return the environment of a subprocess: the user's, including packages on PYTHONPATH (`wheels=` of gpu.sh),
    with one thread per process, since tests share few cores."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}


def train_command() -> None:
    """Run `python train.py` with `sys.argv` in this process."""
    import train
    from configs.program import run_guarded

    run_guarded(train.main)


def generate_command() -> None:
    """Run `python generate.py` with `sys.argv` in this process."""
    import generate
    from configs.program import run_guarded

    run_guarded(generate.main)


def evaluate_command() -> None:
    """Run `python evaluate.py` with `sys.argv` in this process."""
    import evaluate
    from configs.program import run_guarded

    run_guarded(evaluate.main)


def export_command() -> None:
    """Run `python export.py` with `sys.argv` in this process."""
    import export
    from configs.program import run_guarded

    run_guarded(export.main)


COMMANDS = {
    "train.py": train_command,
    "generate.py": generate_command,
    "evaluate.py": evaluate_command,
    "export.py": export_command,
}
"""The programs by the names of their scripts."""


def call(
    script: str, *arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs in this process and return what it wrote."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    code = 0
    try:
        COMMANDS[script]()
    except SystemExit as left:
        code = int(left.code or 0)
    return subprocess.CompletedProcess([script, *arguments], code, *capsys.readouterr())


@pytest.fixture
def program(tmp_path: Path) -> Run:
    """Return a function that runs one of the programs in `tmp_path` as a user does: `program("train.py", "key=value",
    …, input=…)`.

    `before`: a command to prepend, e.g. a shell with resource limits.
    """

    def run(
        script: str, *arguments: str, input: str | bytes = "", timeout: float = 180, before: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [*before, sys.executable, str(ROOT / script), *arguments],
            cwd=tmp_path,
            env=environment(),
            input=data,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """As `program`, without standard input, in this process, which has imported the libraries already: most of the time
    of a short run would go to imports. For tests that do not concern the process itself: signals, limits, streams."""
    monkeypatch.chdir(tmp_path)
    return lambda script, *arguments: call(script, *arguments, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture
def shell(trained: Path) -> Run:
    """Return a function that runs a line in bash in the folder with the runs; `generate …` runs generate.py."""

    def run(line: str, input: bytes = b"") -> subprocess.CompletedProcess[str]:
        program = f"{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'generate.py'))}"
        script = f'generate() {{ {program} "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=trained, env=environment(), input=input, capture_output=True, check=False
        )
        return subprocess.CompletedProcess(line, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def generate(trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs generate.py in this process, in the folder with the runs: where no shell and no
    standard input matters, most of the time would go to imports."""
    monkeypatch.chdir(trained)
    return lambda *arguments: call("generate.py", *arguments, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Write a small text file."""
    path = tmp_path / "book.txt"
    lines = [
        f"The {a} {b} {c} the {d}."
        for a in ("red", "old", "shy")
        for b in ("fox", "cat", "hen", "cow")
        for c in ("sees", "likes", "finds", "wants")
        for d in ("barn", "tree", "road", "pond", "hill")
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny run of each task; the GPT's tokenizer has byte fallback. Of the workers of
    pytest-xdist, one trains and each gets a copy, since tests write into it."""
    folder = tmp_path_factory.mktemp("trained")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        train_both(folder)
        return folder
    shared = tmp_path_factory.getbasetemp().parent / "trained"  # of this session, unlike without workers
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            begun = tmp_path_factory.mktemp("training")
            train_both(begun)
            begun.rename(shared)
    shutil.copytree(shared, folder, symlinks=True, dirs_exist_ok=True)
    return folder


def train_both(folder: Path) -> None:
    """Train a tiny run of each task in a folder."""
    for task, more in {"gpt": ["tokenizer.byte_fallback=true"], "translate": ["trainer.steps=40"]}.items():
        done = subprocess.run(
            [
                sys.executable,
                str(ROOT / "train.py"),
                *TINY,
                f"task={task}",
                f"name={task}",
                "trainer.test=false",
                "trainer.evaluate_every=50",
                "trainer.limit_evaluations=false",  # on a busy machine, early recordings would be left out
                *more,
            ],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
