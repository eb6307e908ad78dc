"""`Run`, a trained model in Python: the same texts, scores and maps as the programs, and the README as printed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from run import Run
from tests.conftest import ROOT

Program = Callable[..., Any]

pytestmark = pytest.mark.slow


def test_a_text_is_that_of_the_program(trained: Path, generate: Program) -> None:
    """Guards against a second path from a prompt to a text, with other defaults, seeds or stop strings."""
    run = Run("runs/gpt")
    for settings in ({}, {"temperature": 0.5, "top_k": 9, "max_tokens": 12, "seed": 3}, {"stop": ["e"]}):
        words = [f"{key}={value[0] if key == 'stop' else value}" for key, value in settings.items()]
        assert run.generate("Emi", **settings) + "\n" == generate("run=runs/gpt", "prompt=Emi", *words).stdout


def test_translations_are_those_of_the_program(trained: Path, generate: Program) -> None:
    """Guards against other defaults, and against batches by length that change the order."""
    run, lines = Run(trained / "runs/translate"), ["Ken reads a book in the park.", "", "Emi runs. "]
    printed = generate("run=runs/translate", "beam_size=2", "prompt=" + "\n".join(lines)).stdout
    assert run.translate(lines, beam_size=2) == printed.splitlines()
    assert run.translate(lines[0], beam_size=2) == printed.splitlines()[0]


def test_an_ensemble_writes_and_has_no_maps(trained: Path, generate: Program) -> None:
    """Guards against the first model alone."""
    name = "runs/gpt,runs/gpt/checkpoints/last"
    run = Run(name)
    assert len(run.members) == 2
    assert run.generate("Emi", max_tokens=9) + "\n" == generate(f"run={name}", "prompt=Emi", "max_tokens=9").stdout
    with pytest.raises(UserError, match="an ensemble has no attention maps"):
        run.attention("Emi")


def test_wrong_use_is_one_sentence(trained: Path) -> None:
    """Guards against a traceback from the depth of a model."""
    gpt, translator = Run(trained / "runs/gpt"), Run(trained / "runs/translate")
    for wrong, words in (
        (lambda: gpt.translate("Emi"), "generates text: use generate()"),
        (lambda: translator.generate("Emi"), "translates: use translate()"),
        (lambda: gpt.generate("Emi", temperature=-1), "temperature=-1: must be 0"),
        (lambda: translator.translate("Emi", beam_size=0), "beam_size=0: must be from 1"),
        (lambda: translator.translate("Emi", reverse=True), "was trained in one direction only"),
        (lambda: translator.attention("Emi", "word " * 99), "at most 32 can be read"),
        (lambda: gpt.evaluate(beam_size=3), "beam_size: .* has no such setting"),
        (lambda: Run(trained / "runs/none"), "no such run folder"),
        (lambda: Run(trained / "runs/gpt", "step-00000099"), "step-00000099"),
        (lambda: Run(trained / "runs/gpt", device="abacus"), "device"),
    ):
        with pytest.raises(UserError, match=words.replace("(", r"\(").replace(")", r"\)")):
            wrong()
    with pytest.raises(TypeError, match="temprature"):
        gpt.generate("Emi", temprature=1)


def test_scores_are_those_of_evaluate(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a second protocol."""
    from evaluate import evaluate
    from training.evaluation.reports.settings import EvaluateSettings

    monkeypatch.chdir(trained)
    evaluate(EvaluateSettings(run="runs/gpt", split="valid", json="scores.json"))
    scores = json.loads(Path("scores.json").read_text("utf-8"))["scores"]
    assert {name: vars(figure) for name, figure in Run("runs/gpt").evaluate("valid").items()} == scores


def test_the_python_of_the_readme_runs_as_printed(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against lines that a reader copies and that fail."""
    page = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(import torch\nfrom run import Run\n.*?)```", page, re.DOTALL)
    for name, task in {"demo_gpt": "gpt", "demo_enja": "translate"}.items():
        shutil.copytree(trained / "runs" / task, tmp_path / "runs" / name, symlinks=True)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    written = capsys.readouterr().out
    assert written.startswith("One day, Leo")
    assert "Figure(value=" in written
    assert "torch.Size([1, " in written
