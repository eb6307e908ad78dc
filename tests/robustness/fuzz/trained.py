"""A tiny trained run of each task, made once, for cases that damage a copy of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

TINY = (
    "model.layers=1 model.heads=2 model.width=16 model.context=16 trainer.steps=4 trainer.evaluate_every=2"
    " trainer.log_every=1 trainer.batch_size=2 trainer.samples=1 trainer.evaluate_sentences=4 data.sentences=120"
    " data.stories=60 data.batch_tokens=128 attention.examples=1 attention.scored=2 attention.image=false"
    " schedule.warmup=1 trainer.test=false trainer.keep=5 data.cache=.cache tokenizer=bpe tokenizer.vocab_size=700"
    " tokenizer.byte_fallback=true trainer.device=cpu"
).split()
"""Settings of a run that trains in a second."""

_MODULES = (
    "train",
    "generate",
    "run",
    "generation.line_translation",
    "generation.text_streaming",
    "training.evaluation.evaluators",
    "training.run_folder.initial_state",
    "training.trainer",
    "data.token_cache",
    "datasets",
    "training.run_summary",
    "attention_maps.command_line.export",
)

_home: Path | None = None


def make(folder: Path) -> None:
    """Train both runs in `folder`, unless they exist, in a child process: a fork of this process loses its threads."""
    global _home
    if _home is not None:
        return
    for module in _MODULES:
        import_module(module)
    folder.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder)
            import train
            from configs.program import exit_code_of

            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
                for task in ("gpt", "translate"):
                    sys.argv = ["train.py", *TINY, f"task={task}", f"name={task}"]
                    code = exit_code_of(train.main) or code * (task == "gpt")
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the runs to damage could not be trained")
    _home = folder


def copy_run(folder: Path, task: str, cache: bool = False) -> None:
    """Copy the run of a task to `folder/runs`, and the cache of the prepared data for a case that trains."""
    for place in (f"runs/{task}", *([".cache"] if cache else [])):
        shutil.copytree(home() / place, folder / place, symlinks=True)


def home() -> Path:
    """Return the folder with the undamaged runs."""
    assert _home is not None
    return _home


def generate_from(run: str, *settings: str, stdin: bytes | None = None) -> None:
    """Run `generate.py`; without a prompt it reads `stdin`."""
    import generate

    if stdin is not None:
        Path("tmp/stdin").write_bytes(stdin)
        opened = os.open("tmp/stdin", os.O_RDONLY)
        Path("tmp/stdin").unlink()
        os.dup2(opened, 0)
    sys.argv = ["generate.py", f"run={run}", *settings]
    generate.main()


def train_with(*settings: str) -> None:
    """Run `train.py`."""
    import train

    sys.argv = ["train.py", *settings]
    train.main()
