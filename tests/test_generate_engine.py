"""generate.py with CTranslate2 as a user runs it: the same translations, Ctrl-C, notes, folders without permission."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run, call, environment
from tests.test_generate_interactive import at_a_terminal

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

LINES = ["Emi likes apples.", "", "The dog runs.", "Ken reads a book in the park because it is quiet.", " "]


@pytest.fixture
def start_generate(trained: Path) -> Run:
    """Return a function that runs generate.py in the folder with the runs."""

    def run(*arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "generate.py"), *arguments]
        return subprocess.run(
            command, cwd=trained, env=environment(), input=input, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.slow
def test_both_engines_print_the_same_translations_in_the_same_order(start_generate: Run) -> None:
    """Guards against lines in another order, a line for the empty end of a file, and notes about nothing."""
    text = "".join(f"{line}\n" for line in LINES * 10)
    ours, theirs = (
        start_generate("run=runs/translate", f"engine={engine}", input=text) for engine in ("torch", "ctranslate2")
    )
    assert (ours.returncode, theirs.returncode, ours.stderr, theirs.stderr) == (0, 0, "", "")
    assert theirs.stdout == ours.stdout
    assert theirs.stdout.count("\n") == len(LINES) * 10


@pytest.mark.slow
@pytest.mark.parametrize(("run", "prompt"), [("runs/gpt", "Emi"), ("runs/translate", "Emi runs.")])
def test_our_own_code_decodes_unless_asked_otherwise(
    run: str, prompt: str, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a reader of `generation/` whose program runs something else, because CTranslate2 is installed."""
    monkeypatch.chdir(trained)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # its import fails
    done = call("generate.py", f"run={run}", f"prompt={prompt}", monkeypatch=monkeypatch, capsys=capsys)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@pytest.mark.slow
def test_a_run_that_cannot_be_written_to_is_named(trained: Path, tmp_path: Path, in_process: Run) -> None:
    """Guards against a traceback where the export cannot be stored, and a shared run that nobody else can use."""
    shutil.copytree(trained / "runs" / "gpt", tmp_path / "gpt", symlinks=True, ignore=shutil.ignore_patterns("engine"))
    (tmp_path / "gpt" / "engine").write_text("a file instead of a folder")
    done = in_process("generate.py", "run=gpt", "prompt=Emi", "engine=ctranslate2")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "gpt/engine" in line
    assert in_process("generate.py", "run=gpt", "prompt=Emi", "max_tokens=5").returncode == 0


@pytest.mark.slow
def test_ctrl_c_stops_a_text_and_then_a_process_without_an_abort(trained: Path) -> None:
    """Guards against a thread that still writes while the interpreter exits, which ends the process with SIGABRT."""
    settings = ("run=runs/gpt", "engine=ctranslate2", "max_tokens=1000000", "temperature=1")
    with at_a_terminal(trained, *settings) as terminal:
        terminal.read_until("> ")
        for _ in range(100):  # a short text may end by itself
            terminal.type("Emi\n")
            if "\n> " not in (begun := terminal.read(300)) and terminal.interrupt(begun):
                break
        terminal.read_until("\r\n> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "generate.py"), *settings, "prompt=The", "samples=1000000"],
        cwd=trained,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert process.stdout is not None
    assert len(process.stdout.read(200)) == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
