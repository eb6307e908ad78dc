"""A finished run of each task in a folder of its own, and commands that must refuse what they are given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment, generate_command, train_command

Refuses = Callable[..., str]

SOCKETS = """
import sys
def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        if isinstance(arguments[1] if event == "socket.connect" else "", (tuple, str)):
            print("NETWORK", event, arguments, file=sys.stderr, flush=True)
            raise OSError("no network in this test")
sys.addaudithook(audit)
"""
"""A sitecustomize.py that forbids connections and the resolution of names, and reports attempts."""


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """Return a folder with copies of both runs, in `runs/gpt` and `runs/translate`."""
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    return tmp_path


@pytest.fixture
def offline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which Python opens no connections."""
    folder = tmp_path_factory.mktemp("offline")
    (folder / "sitecustomize.py").write_text(SOCKETS, encoding="utf-8")
    return environment() | {"PYTHONPATH": f"{folder}{os.pathsep}{environment()['PYTHONPATH']}"}


def run(folder: Path, *command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of the project in `folder`."""
    script = [str(ROOT / command[0]), *command[1:]] if command[0].endswith(".py") else [*command]
    return subprocess.run(
        [sys.executable, *script],
        cwd=folder,
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.fixture
def refuses(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuses:
    """`refuses(program, argument, …)`: run a command that must exit with code 2 and one line, with nothing executed
    (which would create a file `evil`) and nothing written -> the line. In this process: most time would go to imports.
    """
    monkeypatch.chdir(runs)
    commands = {"train.py": train_command, "generate.py": generate_command}

    def refused(program: str, *arguments: str, lines: int = 1) -> str:
        before = sorted(runs.rglob("*"))
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        with pytest.raises(SystemExit) as left:
            commands[program]()
        said = capsys.readouterr().err
        assert left.value.code == 2, said
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        assert len(errors) == lines, said
        assert said.splitlines()[-1] == errors[-1]
        assert sorted(runs.rglob("*")) == before
        return said

    return refused
