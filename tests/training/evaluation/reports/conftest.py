"""Small runs for the tests of evaluate.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import TINY, evaluate_command, generate_command, train_command
from tests.training.evaluation.reports.programs import Program, Shown, command

SETTINGS = [
    *(setting for setting in TINY if not setting.startswith("tokenizer.")),
    "attention.enabled=false",
    "trainer.keep=9",
    "trainer.beam_size=2",
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a text, tokenised pairs, two runs on the text, two on the pairs and one on stories."""
    root = tmp_path_factory.mktemp("reports")
    words = "the red old shy fox cat hen cow sees likes finds a big barn tree road".split()
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(words, 6)) + " ." for _ in range(300)]
    (root / "book.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    verbs = {"runs": "走る", "sleeps": "ねる", "sings": "うたう"}
    animals = {"fox": "狐", "cat": "猫", "cow": "牛", "hen": "鶏"}
    pairs = [
        f"{count} {animal}s {verb}\t{count} 匹 の {animals[animal]} が {verbs[verb]} 。\n"
        for count in range(30)
        for animal in animals
        for verb in verbs
    ]
    (root / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    text = [*SETTINGS, "data=text", "data.path=book.txt", "data.test_fraction=0.1"]
    translation = [*SETTINGS, "task=translate", "data=pairs", "data.path=pairs.tsv", "data.split=random"]
    translation += ["data.test_fraction=0.1", "data.source_column=1", "data.target_column=2"]
    stories = [*SETTINGS, "tokenizer.vocab_size=700", "model.context=200"]
    runs = {
        "stories": stories,
        "chars": [*text, "tokenizer=char"],
        "pieces": [*text, "tokenizer=bpe", "tokenizer.vocab_size=100", "seed=2"],
        "pairs": [*translation, "tokenizer=char", "trainer.steps=200", "trainer.evaluate_every=100", "optim.lr=1e-2"],
        "both": [*translation, "tokenizer=char", "trainer.steps=200", "trainer.evaluate_every=200", "optim.lr=1e-2"],
    }
    runs["both"] += ["data.both_directions=true"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name, settings in runs.items():
            assert command(patch, train_command, *settings, f"name={name}") == 0
    return root


@pytest.fixture
def evaluate(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """`evaluate("run=runs/chars")`: run evaluate.py in the folder of the runs -> exit code, stdout, stderr."""
    return program(evaluate_command, folder, monkeypatch, capsys)


@pytest.fixture
def generate(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """`generate("run=runs/chars", "prompt=x")`: the same with generate.py."""
    return program(generate_command, folder, monkeypatch, capsys)


def program(
    start: Callable[[], None], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    """Return a function that runs a program in the folder."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> Shown:
        capsys.readouterr()
        code = command(monkeypatch, start, *arguments)
        return code, *capsys.readouterr()

    return run
