"""Damaged checkpoints: found by their checksums, set aside on resume, and replaced by the last good one."""

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from configs.errors import UserError
from tests.conftest import TINY, generate_command, train_command
from tests.test_resume import curve
from training.checkpoints.files import load_state, load_weights, write_weights
from training.checkpoints.folder import record_evaluation, save_checkpoint
from training.checkpoints.loading import read_checkpoint, set_aside
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import Damaged

FILES = ("weights.safetensors", "state.pt", "state.json")


def written(run: Path, step: int, *, best: bool = False) -> Path:
    """Return a new checkpoint of a run, whose evaluation is recorded."""
    weights = {"b": torch.randn(300), "a": torch.randn(7, 5)}
    snapshot = Snapshot(weights, {"moments": torch.randn(335), "step": step})
    checkpoint = save_checkpoint(run / "checkpoints", step, snapshot, {"step": step, "best_loss": 1.5}, keep=9)
    record_evaluation(run / "checkpoints", {"step": step, "best_loss": 1.25}, best=best, keep=9)
    return checkpoint


def flip(path: Path, position: int) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << position % 8
    path.write_bytes(content)


def load(checkpoint: Path) -> None:
    load_weights(checkpoint)
    load_state(checkpoint)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_bit_anywhere_is_found(name: str, tmp_path: Path) -> None:
    """Guards against training that silently continues with other weights, moments or counters: the formats do not
    notice a changed bit in a tensor or a digit."""
    checkpoint = written(tmp_path, 10)
    whole = (checkpoint / name).read_bytes()
    for position in random.Random(0).sample(range(len(whole)), 40):
        flip(checkpoint / name, position)
        if name == "state.json" and whole[position : position + 1] in b" \n":
            continue  # between two values
        with pytest.raises(Damaged) as raised:
            load(checkpoint)
        assert raised.value.cause.startswith(name), position
        (checkpoint / name).write_bytes(whole)
    (checkpoint / name).write_bytes(whole)
    load(checkpoint)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["remove", "truncate", "extend", "zeros"])
def test_the_newest_intact_checkpoint_replaces_a_damaged_one(name: str, damage: str, tmp_path: Path) -> None:
    """Guards against a run that cannot be used because its newest checkpoint is damaged."""
    written(tmp_path, 10)
    good, bad = written(tmp_path, 20), written(tmp_path, 30, best=True)
    path = bad / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "remove":
        changed = {"truncate": whole[: len(whole) // 2], "extend": whole + b"\0", "zeros": bytes(len(whole))}
        path.write_bytes(changed[damage])
    for which in ("last", "best"):
        result = read_checkpoint(tmp_path, which, with_state=True)
        assert result.path == good
        assert result.state is not None
        assert result.state["step"] == 20
        assert [(path, cause.startswith(name)) for path, cause in result.damaged] == [(bad, True)]
    with pytest.raises(Damaged, match=rf"step-00000030/{name}: missing or damaged"):
        read_checkpoint(tmp_path, "step-00000030", with_state=True)


def test_if_none_is_intact_all_are_named(tmp_path: Path) -> None:
    """Guards against a message about one file if the whole folder is damaged, e.g. by a failing disk."""
    for step in (10, 20):
        flip(written(tmp_path, step) / "weights.safetensors", 900)
    with pytest.raises(UserError, match=r"every checkpoint is damaged: step-00000020 \(weights.*; step-00000010 \(wei"):
        read_checkpoint(tmp_path, "last")


def test_an_intact_file_that_does_not_load_is_not_damaged(tmp_path: Path) -> None:
    """Guards against blaming the disk for a file that another version of torch, or somebody else, has written."""
    checkpoint = written(tmp_path, 10)
    state = torch.load(checkpoint / "state.pt", weights_only=True)
    foreign = Snapshot(load_weights(checkpoint), state | {"code": Path("x")})
    shutil.rmtree(tmp_path / "checkpoints")
    save_checkpoint(tmp_path / "checkpoints", 10, foreign, {"step": 10}, keep=0)
    with pytest.raises(UserError, match=r"state\.pt: cannot be loaded .*although its checksum is right"):
        read_checkpoint(tmp_path, "last", with_state=True)


def test_what_was_set_aside_is_never_replaced_or_deleted(tmp_path: Path) -> None:
    """Guards the files of a damaged checkpoint, from which some tensors may be recovered by hand."""
    first = set_aside(written(tmp_path, 10))
    second = set_aside(written(tmp_path, 10))
    assert [first.name, second.name] == ["damaged-step-00000010", "damaged-step-00000010-2"]
    for step in (20, 30):
        record_evaluation(written(tmp_path, step).parent, {"step": step}, best=True, keep=0)
    assert {path.name for path in first.parent.glob("*step*")} == {first.name, second.name, "step-00000030"}


def test_weights_are_written_as_the_library_writes_them(tmp_path: Path) -> None:
    """Guards against weights.safetensors that other programs cannot read: it is written here, in pieces."""
    weights = {"b": torch.randn(3, 5), "a.weight": torch.randn(()), "empty": torch.zeros(0, 4), "重み": torch.ones(2)}
    checksum = write_weights(Snapshot(weights, {}), tmp_path / "w.safetensors", {"step": "1"})
    content = (tmp_path / "w.safetensors").read_bytes()
    assert content == save(weights, {"step": "1"})
    assert checksum.difference(tmp_path / "w.safetensors") is None


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`command(train_command, "key=value", …)` in `tmp_path` -> exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(program: Callable[[], None], *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["program", *arguments])
        code = 0
        try:
            program()
        except SystemExit as left:
            code = int(left.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


RECIPE = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.evaluate_every=2", "trainer.test=false"]
RECIPE += ["schedule=constant", "trainer.limit_evaluations=false"]


@pytest.mark.slow
@pytest.mark.parametrize("links", ["links", "no links", "links resolved"])
def test_resume_renames_damaged_checkpoint_and_repeats_its_steps(links: str, command: Command, tmp_path: Path) -> None:
    """Guards against a run lost to one damaged file, a damaged file deleted, and other results afterwards; in a run
    that was copied without its links too, or with files in their place."""
    assert command(train_command, *RECIPE, "name=straight", "trainer.steps=8")[0] == 0
    assert command(train_command, *RECIPE, "name=run")[0] == 0
    run, checkpoints = Path("runs/run"), Path("runs/run/checkpoints")
    assert sorted(path.name for path in checkpoints.glob("step-*")) == ["step-00000004", "step-00000006"]
    bad = checkpoints / "step-00000006"
    flip(bad / "state.pt", 3000)
    if links == "no links":
        for name in ("last", "best"):
            (checkpoints / name).unlink()
    elif links == "links resolved":
        copied = Path("runs/copied")
        shutil.copytree(run, copied)
        shutil.rmtree(run)
        copied.rename(run)
        bad = checkpoints / "last"
        flip(checkpoints / "step-00000006" / "weights.safetensors", 3000)
    code, output, _ = command(train_command, "resume=runs/run", "trainer.steps=8")
    assert code == 0
    assert (
        f"warning: {bad} is damaged (state.pt: its content is not what was written: the checksum differs): renamed to"
        f" damaged-{bad.name}; training resumes from step-00000004\n" in output.replace(f"{tmp_path}/", "")
    )
    assert (checkpoints / f"damaged-{bad.name}" / "state.pt").is_file()
    assert curve(run) == curve(Path("runs/straight"))
    straight, resumed = (load_weights(Path("runs") / each / "checkpoints" / "last") for each in ("straight", "run"))
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in straight.items())
    assert "damaged" not in command(train_command, "resume=runs/run", "trainer.steps=9")[1]


@pytest.mark.slow
def test_named_step_is_not_replaced_by_another(command: Command, tmp_path: Path) -> None:
    """Guards against training from another step than requested, which would delete later ones; and against files
    renamed by generation or by a run that only takes the weights."""
    assert command(train_command, *RECIPE, "name=run")[0] == 0
    bad = Path("runs/run/checkpoints/step-00000006")
    flip(bad / "weights.safetensors", 5000)
    before = sorted(bad.parent.rglob("*"))
    for named in ("step-00000006", "best"):
        code, _, error = command(train_command, f"resume=runs/run/checkpoints/{named}", "trainer.steps=8")
        assert code == 2
        assert "step-00000006/weights.safetensors: missing or damaged (its content is not what was written" in error
        assert "To fix it: use another checkpoint, such as" in error
        assert error.count("\n") == 1
    code, _, error = command(train_command, *RECIPE, "name=new", f"init_from={bad}")
    assert code == 2
    noted = "step-00000006 is damaged (weights.safetensors: its content is not what was written: the checksum differs):"
    code, text, error = command(generate_command, "run=runs/run", "prompt=The", "max_tokens=5")
    assert (code, text[:3]) == (0, "The")
    assert f"{noted} step-00000004 is used instead\n" in error
    code, output, _ = command(train_command, *RECIPE, "name=new", "init_from=runs/run")
    assert code == 0
    assert f"{noted} step-00000004 is used instead\n" in output
    assert sorted(bad.parent.rglob("*")) == before
    flip(bad.with_name("step-00000004") / "weights.safetensors", 5000)
    for arguments in ((generate_command, "run=runs/run", "prompt=The"), (train_command, "resume=runs/run")):
        code, _, error = command(*arguments)
        assert code == 2
        assert "every checkpoint is damaged: step-00000006 (weights" in error
        assert "; step-00000004 (weights" in error
    assert sorted(bad.parent.rglob("*")) == before
