"""Run folders that were damaged, or made to harm: refused with the reason, with nothing read or written outside."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from configs.errors import UserError
from tests.conftest import TINY, generate_command, train_command
from training.run_folder.saved_config import load_config

LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAUGHS, r"cannot be read as a config: it has an alias, \*a0"),
        ("model: &m {layers: 1}\ntokenizer: *m\n", r"cannot be read as a config: it has an alias, \*m"),
        ("[" * 5000, r"cannot be read as a config"),
        ("format: 2\ntask: sing\n", r"task=sing: must be gpt or translate"),
        ("format: 2\nmodel: {heads: 0}\n", r"model.heads=0: must be at least 1"),
        ("format: 2\nmodel: {width: 30}\n", r"model.width=30: must be a multiple of"),
        ("format: 2\nmodel: {layers: 1000000000}\n", r"model.layers=1000000000: must be at most 1000"),
        (
            "!!python/object/apply:os.system ['touch evil']\n",
            r"cannot be read as a config: could not determine a const",
        ),
        ("data: !!python/name:os.system\n", r"cannot be read as a config: could not determine a constructor"),
        ("_target_: os.system\n_args_: [touch evil]\n", r"cannot be read as a config: Key '_target_' not in"),
    ],
)
def test_a_config_made_to_harm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    """Guards against a billion values from a hundred bytes, a traceback for an impossible model, and executed code."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"config\.yaml: {reason}") as refused:
        load_config(run)
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.model", "checkpoints/step-00000001/state.pt"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_in_a_run_is_refused_at_once(tmp_path: Path, name: str, kind: str) -> None:
    """Guards against a program that waits forever for a named pipe, or reads /dev/zero until the memory is full."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match=rf"{name}: is neither a file nor a folder"):
        load_config(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Train a small GPT with a single checkpoint in `runs/done`, in the current directory."""
    folder = tmp_path_factory.mktemp("damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "book.txt").write_text("The red fox sees the old barn.\n" * 60, encoding="utf-8")
        text = [
            "data=text",
            "data.path=book.txt",
            *[s for s in TINY if not s.startswith("tokenizer")],
            "tokenizer=char",
        ]
        patch.setattr(sys, "argv", ["train.py", *text, "name=done", "trainer.evaluate_every=6", "trainer.test=false"])
        train_command()
        without_checksums(folder / "runs" / "done" / "checkpoints" / "last")
        yield folder / "runs" / "done"


def without_checksums(checkpoint: Path) -> None:
    """Delete the checksums, so that damage is found only when the contents are read."""
    path = checkpoint / "state.json"
    content = json.loads(path.read_text("utf-8"))
    path.write_text(
        json.dumps({key: value for key, value in content.items() if key not in ("files", "crc32")}), "utf-8"
    )


def message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Path, resume: bool) -> str:
    """Return the one line with which generate.py, or a resume, refuses the run."""
    monkeypatch.chdir(run.parent.parent)
    settings = ["resume=runs/done", "trainer.steps=8"] if resume else ["run=runs/done", "checkpoint=last", "prompt=The"]
    monkeypatch.setattr(sys, "argv", ["program", *settings])
    before = sorted(run.rglob("*"))
    with pytest.raises(SystemExit) as left:
        train_command() if resume else generate_command()
    assert left.value.code == 2
    assert sorted(run.rglob("*")) == before
    output = capsys.readouterr().err
    assert output.startswith("error: ")
    assert output.count("\n") == 1
    return output


@pytest.mark.slow
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: float
) -> None:
    """Guards against an IndexError in the middle of a text, and translations of nothing but the same token."""
    path = finished / "checkpoints" / "last" / "weights.safetensors"
    whole, weights = path.read_bytes(), load_file(path)
    try:
        weights[sorted(weights)[0]].view(-1)[0] = value
        save_file(weights, path)
        assert "is damaged: " in (output := message(monkeypatch, capsys, finished, resume=False))
        assert "infinite or not numbers (NaN)" in output
        weights = {name: tensor.nan_to_num(0, 0, 0).to(torch.int8) for name, tensor in weights.items()}
        save_file(weights, path)
        assert "has torch.int8 numbers instead of float32" in message(monkeypatch, capsys, finished, resume=False)
    finally:
        path.write_bytes(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("weights", None),
        ("weights", "absent"),
        ("optimizer", []),
        ("stream", {"seed": 1, "epoch": "x", "position": 0}),
        ("stream", {"seed": 1, "epoch": 0, "position": -5}),
        ("rng", {"cpu": "x"}),
        ("rng", None),
        ("intervals", [{"loss": [1]}, {}]),
        ("intervals", 5),
        ("data", 7),
        ("", ["a", "list"]),
    ],
)
def test_a_training_state_of_other_contents_is_refused(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], part: str, value: object
) -> None:
    """Guards against tracebacks, some of them only after a step of training, when files have been changed."""
    path = finished / "checkpoints" / "last" / "state.pt"
    whole, state = path.read_bytes(), torch.load(path, weights_only=True)
    try:
        if value == "absent":
            del state[part]
        else:
            state = state | {part: value} if part else value
        torch.save(state, path)
        output = message(monkeypatch, capsys, finished, resume=True)
        assert ("does not fit" if part == "optimizer" else "damaged") in output
    finally:
        path.write_bytes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("line", ['"tokens": "many"', '"seconds": -1', '"best_loss": []', '"evaluated_step": 1e999'])
def test_counters_that_are_no_numbers_are_refused(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """Guards against a TypeError long after the start."""
    path = finished / "checkpoints" / "last" / "state.json"
    whole = path.read_text("utf-8")
    try:
        path.write_text(json.dumps(json.loads(whole) | json.loads(f"{{{line}}}")), "utf-8")
        assert "damaged" in message(monkeypatch, capsys, finished, resume=True)
    finally:
        path.write_text(whole, "utf-8")
