"""Files of prepared data that disappear or shrink while a run reads them through a memory map."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Timer

import pytest

from tests.conftest import ROOT, TINY, Run, environment
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import checkpoint_step

RECIPE = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "attention=off", "name=run"]
RECIPE += ["trainer.evaluate_every=40", "trainer.log_every=10"]


def with_change_in_the_middle(folder: Path, change: Callable[[], None], steps: int) -> tuple[int, str, str]:
    """Start a run, call `change` after its first evaluation -> exit code, standard output, standard error."""
    process = subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "train.py"), *RECIPE, f"trainer.steps={steps}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    patience = Timer(180, process.kill)
    patience.start()
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("step 50/"):
            change()
            break
    said += process.stdout.read()  # `communicate` would lose what the loop has read ahead
    error = process.stderr.read()
    code = process.wait(60)
    patience.cancel()
    return code, said, error


@pytest.mark.slow
def test_truncated_token_file_ends_with_one_error_line(in_process: Run, book: Path) -> None:
    """Guards against a run that SIGBUS kills without a word, and against the loss of its checkpoint."""
    files = []

    def truncate() -> None:
        for path in (book.parent / ".cache").rglob("tokens/*/train*"):
            files.append(path)
            path.write_bytes(b"")

    code, output, error = with_change_in_the_middle(book.parent, truncate, 4000)
    assert files
    assert code == 2, output[-2000:]
    assert "train" in error
    assert "was truncated, or its disk failed, while it was in use: restore it" in error
    assert "Traceback" not in output + error
    assert len(error.strip().splitlines()) == 1
    last = checkpoint_path(book.parent / "runs" / "run")
    assert checkpoint_step(last) >= 40
    load_weights(last)
    load_state(last)
    shutil.rmtree(book.parent / ".cache")
    more = f"trainer.steps={checkpoint_step(last) + 5}"
    again = in_process("train.py", "resume=runs/run", more, "trainer.test=false")
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_a_run_goes_on_if_its_prepared_data_are_deleted(book: Path) -> None:
    """Guards against a run that ends because somebody empties the cache or removes the text: what is mapped stays."""

    def delete() -> None:
        shutil.rmtree(book.parent / ".cache")
        book.unlink()

    code, output, error = with_change_in_the_middle(book.parent, delete, 90)
    assert code == 0, error
    assert "finished at step 90" in output
