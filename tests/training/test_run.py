"""A run folder from start to start: who may write into it, where training continues, what is deleted."""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from safetensors.torch import save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_maps.base import atomic_file
from attention_maps.files import store
from attention_maps.files.store import steps as recorded_steps
from configs.errors import UserError
from tests.conftest import TINY, train_command
from tests.test_resume import curve, start_and_stop
from training.checkpoints.files import load_weights
from training.checkpoints.loading import Checkpoint, checkpoint_path
from training.checkpoints.summary import load_progress
from training.run_folder import test_results
from training.run_folder.name_and_lock import files_of_failed_start
from training.run_folder.tokenizers import load_tokenizers
from training.trainer import Trainer

Train = Callable[..., str]

TEXT = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.evaluate_every=2"]
TEXT += ["trainer.limit_evaluations=false"]  # also on a busy machine


@pytest.fixture
def train(tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Train:
    """`train("key=value", …)`: run train.py in `tmp_path` and return its output, or its error if it is rejected."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        try:
            train_command()
        except SystemExit as left:
            if left.code != 2:
                raise
            return capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def templates() -> dict[tuple[str, ...], Path]:
    """The runs that `finished` has trained, by their settings."""
    return {}


@pytest.fixture
def finished(
    train: Train, templates: dict[tuple[str, ...], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """`finished("key=value", …)`: a finished run in runs/run with these settings, trained once and then copied."""

    def run(*settings: str) -> Path:
        folder = Path("runs/run")
        if settings in templates:
            shutil.copytree(templates[settings], folder, symlinks=True)
        else:
            train(*settings, "name=run")
            templates[settings] = tmp_path_factory.mktemp("finished") / "run"
            shutil.copytree(folder, templates[settings], symlinks=True)
        return folder

    return run


def checkpoints(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("checkpoints/step-*"))


@pytest.mark.slow
def test_maps_are_recorded_between_evaluations_and_change_nothing(train: Train) -> None:
    """Guards the early steps, in which heads form, and training, which recordings must not disturb."""
    train(*TEXT, "name=often", "model.dropout=0.1")
    train(*TEXT, "name=seldom", "model.dropout=0.1", "attention.every=0")
    assert list(store.steps("runs/often")) == [0, 1, 2, 3, 4, 5, 6]
    assert list(store.steps("runs/seldom")) == [2, 4, 6]
    assert curve(Path("runs/often")) == curve(Path("runs/seldom"))
    first, last = (store.load(store.path("runs/often", step)) for step in (0, 5))
    assert (first.maps(0, "decoder", 0) != last.maps(0, "decoder", 0)).any()
    assert set(last.measures) >= {"entropy", "induction", "copying"}


@pytest.mark.slow
def test_resume_from_earlier_step_is_bit_exact(train: Train, tmp_path: Path) -> None:
    """Guards against two trainings mixed in one folder: overlapping curves, and `best` or a test result of deleted
    weights."""
    run = Path("runs/run")
    train(*TEXT, "name=run", "trainer.keep=5", "trainer.ema=0.9", "model.dropout=0.1")
    shutil.copytree(run, "straight", symlinks=True)
    output = train(f"resume={run}/checkpoints/step-00000002", "trainer.steps=4")
    assert "back to step 2: later checkpoints, metrics and maps are dropped (step-00000004, step-00000006)" in output
    assert "trainer.steps=4 (was 6)" in output
    assert checkpoints(run) == ["step-00000002", "step-00000004"]
    assert load_progress(checkpoint_path(run, "best"))["step"] == 4
    assert test_results.tested_step(run, {}) == 4
    assert list(recorded_steps(run)) == [0, 1, 2, 3, 4]
    output = train(f"resume={run}/checkpoints/step-00000002", "trainer.steps=6")
    assert "(step-00000004)" in output
    assert curve(run) == curve(Path("straight"))
    assert checkpoints(run) == checkpoints(Path("straight"))
    assert test_results.tested_step(run, {}) == 6
    events = EventAccumulator(str(run)).Reload()
    assert [event.step for event in EventAccumulator(str(run / "val")).Reload().Scalars("loss")] == [2, 4, 6]
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_damaged_test_result_is_made_again(train: Train, finished: Callable[..., Path]) -> None:
    """Guards against a traceback of the JSON parser at every resume for a file damaged by a power failure or full
    disk."""
    run = finished(*TEXT, "attention.enabled=false")
    whole = (run / "test.json").read_bytes()
    for content in (b"\0" * 9, b"[]", b"{}"):
        (run / "test.json").write_bytes(content)
        assert "already at step 6" in train(f"resume={run}")
        assert (run / "test.json").read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["trainer.beam_size=1", "trainer.length_penalty=0.0"])
def test_finished_run_is_tested_again_with_another_beam_search(
    train: Train, finished: Callable[..., Path], setting: str
) -> None:
    """Guards against a config that says how the model was tested, and scores of another test."""
    finished(*TINY, "task=translate", "attention.enabled=false", "data.sentences=300")
    (test, config), key = (Path("runs/run") / name for name in ("test.json", "config.yaml")), setting.split("=")[0]
    before, tsv = test.stat().st_mtime_ns, Path("runs/run/translations.test.tsv").stat().st_mtime_ns
    assert "already at step 6" in train("resume=runs/run")
    assert test.stat().st_mtime_ns == before
    assert f"resumed with {key}=" in train("resume=runs/run", setting)
    assert Path("runs/run/translations.test.tsv").stat().st_mtime_ns > tsv
    name, value = key.removeprefix("trainer."), float(setting.split("=")[1])
    assert json.loads(test.read_text(encoding="utf-8"))[name] == value
    assert f"{name}: {setting.split('=')[1]}\n" in config.read_text(encoding="utf-8")


@pytest.mark.slow
def test_other_held_out_data_are_not_mixed_with_those_of_before(train: Train, book: Path) -> None:
    """Guards against old metrics of another test file, and a best loss on another validation file that no later loss
    beats."""
    run, text = Path("runs/run"), book.read_text(encoding="utf-8")
    for name in ("valid", "test", "copy"):
        book.with_name(f"{name}.txt").write_text(text[: len(text) // 4], encoding="utf-8")
    book.with_name("other.txt").write_text(text[::-1], encoding="utf-8")
    train(*TEXT, "attention.enabled=false", "data.valid_path=valid.txt", "data.test_path=test.txt", "name=run")
    whole = (run / "test.json").read_bytes()
    assert "have changed" not in train(f"resume={run}", "data.test_path=copy.txt", "data.valid_path=copy.txt")
    assert (run / "test.json").read_bytes() == whole
    output = train(f"resume={run}", "data.test_path=other.txt")
    assert "note: the test data have changed: the test is repeated" in output
    assert "best loss is reset" not in output
    assert (run / "test.json").read_bytes() != whole
    output = train(f"resume={run}", "data.valid_path=other.txt", "trainer.steps=8")
    assert "note: the validation data have changed: the best loss is reset" in output
    assert load_progress(checkpoint_path(run, "best"))["step"] == 8, (
        "its loss is higher: reversed text is nothing it has seen"
    )


@pytest.mark.slow
def test_resume_from_step_zero_drops_later_training(train: Train, tmp_path: Path) -> None:
    """Guards against step 0, saved after an early signal, treated as a new run, of which nothing is deleted."""
    run = Path("runs/run")
    train(*TEXT, "name=run", "trainer.test=false", "trainer.keep=1")
    first = run / "checkpoints" / "step-00000000"
    shutil.move(run / "checkpoints" / "step-00000004", first)
    progress = load_progress(first) | {"step": 0, "evaluated_step": 0}
    (first / "state.json").write_text(json.dumps(progress), encoding="utf-8")  # without checksums
    weights = load_weights(first)
    state = torch.load(first / "state.pt", weights_only=True)
    save_file(weights, first / "weights.safetensors", metadata={"step": "0", "save": state["save"]})
    assert "step-00000006" in train(f"resume={first}", "trainer.steps=2")
    assert [line["step"] for line in curve(run)] == [2]
    assert [event.step for event in EventAccumulator(str(run)).Reload().Scalars("loss")] == [1, 2]


@pytest.mark.slow
def test_going_back_to_the_best_goes_on_with_its_loss(train: Train, finished: Callable[..., Path]) -> None:
    """Guards against `resume=…/best` read as a run folder, and a loss to beat from a later evaluation."""
    run = finished(*TEXT, "trainer.test=false")
    train(f"resume={run}", "trainer.steps=8", "optim.lr=10", "optim.clip=0")
    assert load_progress(checkpoint_path(run, "best"))["step"] == 6
    assert load_progress(checkpoint_path(run, "last"))["step"] == 8
    output = train(f"resume={run}/checkpoints/best/", "trainer.steps=7", "optim.lr=1e-3", "optim.clip=1")
    assert "back to step 6: later checkpoints, metrics and maps are dropped (step-00000008)" in output
    assert [line["step"] for line in curve(run)] == [2, 4, 6, 7]
    assert load_progress(checkpoint_path(run, "last"))["best_loss"] == min(line["val/loss"] for line in curve(run))


@pytest.mark.slow
def test_a_finished_run_on_other_data_has_no_best_loss(
    train: Train, finished: Callable[..., Path], tmp_path: Path
) -> None:
    """Guards against `best validation loss inf` at the end of a run that had nothing left to do."""
    finished(*TEXT, "trainer.test=false")
    (tmp_path / "other.txt").write_text(
        (tmp_path / "book.txt").read_text(encoding="utf-8") + "The end.\n", encoding="utf-8"
    )
    output = train("resume=runs/run", "data.path=other.txt")
    assert "already at step 6: all steps are done" in output
    assert "best validation loss: none, not evaluated since the reset\n" in output


@pytest.mark.slow
def test_a_new_run_may_start_from_any_checkpoint(train: Train) -> None:
    """Guards against rejecting `init_from=…/step-…`, and against using the best weights instead."""
    train(*TEXT, "name=first", "trainer.keep=5", "trainer.test=false", "optim.lr=1e-2")
    output = train(
        *TEXT,
        "name=second",
        "init_from=runs/first/checkpoints/step-00000002",
        "trainer.steps=1",
        "optim.lr=1e-9",
        "trainer.evaluate_every=1",
        "trainer.test=false",
    )
    assert "starts from the weights of runs/first, step-00000002" in output
    first = {line["step"]: line["val/loss"] for line in curve(Path("runs/first"))}
    assert [line["step"] for line in curve(Path("runs/second"))] == [1]
    assert curve(Path("runs/second"))[0]["val/loss"] == pytest.approx(first[2], abs=1e-4)
    assert abs(first[2] - first[6]) > 1e-2


@pytest.mark.slow
def test_training_keeps_no_copy_of_the_checkpoint_it_started_from(
    train: Train, finished: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against three copies of the weights that stay in memory during a resumed run."""
    finished(*TEXT, "trainer.test=false")
    kept: list[list[Path]] = []
    step = Trainer.step

    def observed(self: Trainer) -> None:
        result = [each for each in gc.get_objects() if type(each) is Checkpoint]  # isinstance asks dead proxies, too
        kept.append([each.path for each in result if each.weights or each.state])
        step(self)

    monkeypatch.setattr(Trainer, "step", observed)
    train("resume=runs/run", "trainer.steps=7", "trainer.test=false")
    train(*TEXT, "name=new", "init_from=runs/run", "trainer.steps=1", "trainer.test=false")
    assert kept == [[], []]


@pytest.mark.slow
def test_the_lock_comes_before_everything_that_is_read(train: Train, finished: Callable[..., Path], book: Path) -> None:
    """Guards against a requeued job that reads `last`, prepares data, and then deletes what the first job has since
    written."""
    finished(*TEXT, "trainer.test=false")
    book.unlink()
    shutil.rmtree("runs/run/checkpoints")
    with FileLock("runs/run/.lock"):
        assert train("resume=runs/run", "trainer.steps=9") == "error: runs/run: another process is training this run\n"
    assert "no checkpoint" in train("resume=runs/run", "trainer.steps=9")


@pytest.mark.slow
def test_a_name_is_free_again_after_a_start_that_saved_nothing(train: Train, tmp_path: Path) -> None:
    """Guards against having to delete a named run that dies before its first checkpoint, and reusing its tokenizer
    for other data."""
    recipe = [setting for setting in TEXT if not setting.startswith("trainer.evaluate_every")]
    code, output = start_and_stop(
        tmp_path,
        [*recipe, "name=run", "trainer.steps=10000", "trainer.evaluate_every=10000", "trainer.early_weights=true"],
        "step 300/",  # the weights of step 0 are written in the background
        signal.SIGKILL,
    )
    assert code == -signal.SIGKILL, output
    run = Path("runs/run")
    saved = {path.name for path in (run / "checkpoints").iterdir()}
    assert "weights-00000000" in saved
    assert all("weights-" in name for name in saved), "only early weights, perhaps one of them half written"
    with FileLock(run / ".lock"):
        assert "another process is training this run" in train(*TEXT, "name=run")
    (tmp_path / "book.txt").write_text((tmp_path / "book.txt").read_text(encoding="utf-8").upper(), encoding="utf-8")
    said = train(*TEXT, "name=run", "trainer.test=false")
    assert "finished at step 6" in said
    assert (run / "log.txt").read_text(encoding="utf-8").startswith(output[:100]), "the log of the first start stays"
    events = EventAccumulator(str(run)).Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5, 6]
    tokenizer = load_tokenizers(run)[0]
    assert tokenizer.decode(tokenizer.encode("FOX")) == "FOX", "the tokenizer is that of the new data"


def test_a_folder_without_symbolic_links_is_refused_before_training(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against hours of training on an exFAT disk that end without a checkpoint."""

    def refuse(self: Path, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "symlink_to", refuse)
        output = train(*TEXT, "name=run")
    assert (
        output
        == "error: runs/run: cannot create symbolic links there (Operation not permitted); choose another folder with"
        " runs=…\n"
    )
    assert "finished" in train(*TEXT, "name=run", "trainer.test=false")


@pytest.mark.slow
def test_every_file_of_a_translators_start_is_known(finished: Callable[..., Path]) -> None:
    """Guards against a new kind of file in a run folder that keeps the name of a failed start taken."""
    run = finished(*TINY, "task=translate", "trainer.test=false")
    with pytest.raises(UserError, match="already exists: continue it"):
        files_of_failed_start(run)
    for name in ("checkpoints", "attention"):
        shutil.rmtree(run / name)
    with pytest.raises(UserError, match="already exists, without a checkpoint"):  # there is a metrics.jsonl
        files_of_failed_start(run)
    (run / "metrics.jsonl").unlink()
    assert files_of_failed_start(run)


@pytest.mark.slow
def test_start_killed_during_a_write_leaves_name_free(finished: Callable[..., Path]) -> None:
    """Guards against an incomplete tokenizer or config, mistaken for a user's file, that keeps the name taken."""
    run = finished(*TINY, "task=translate", "trainer.test=false")
    for name in ("checkpoints", "attention"):
        shutil.rmtree(run / name)
    (run / "metrics.jsonl").unlink()
    written = [path for path in run.iterdir() if path.suffix in (".yaml", ".model", ".txt") and path.name != "log.txt"]
    for path in written:
        if (child := os.fork()) == 0:
            atomic_file.flush = lambda _: os.kill(os.getpid(), signal.SIGKILL)
            atomic_file.write_whole(path, b"", durable=True)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert len(list(run.glob(".*.*.*"))) == len(written) >= 3
    assert files_of_failed_start(run)


@pytest.mark.parametrize(
    "content", ["notes.txt", "metrics.jsonl", "checkpoints/step-00000001/state.json", "checkpoints/mine", "config.yaml"]
)
def test_a_folder_that_holds_anything_else_is_never_touched(train: Train, content: str) -> None:
    """Guards against deleting a user's folder, or an evaluated run, because its name is requested."""
    path = Path("runs/run") / content
    path.parent.mkdir(parents=True)
    path.write_text("{}", encoding="utf-8")
    if content != "config.yaml":  # a start's, apart from that
        (Path("runs/run") / ".lock").touch()
    assert "runs/run already exists" in train(*TEXT, "name=run")
    assert path.read_text(encoding="utf-8") == "{}"
