"""Reference curves: which loss a recipe's run should have at each step."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from configs.errors import UserError
from tests.conftest import TINY, train_command
from training.composed_run import compose_run
from training.config import DataConfig, TrainConfig, TrainerConfig
from training.reference_curves import __main__ as command
from training.reference_curves import curve as curves
from training.reference_curves.curve import CURVES, Curve, Point, effective_settings, reference, to_json

SHIPPED = sorted(path.stem for path in CURVES.glob("*.json"))
BY_STEP = Curve("r", [Point(100, 10, 2.0), Point(400, 30, 1.0)], {"trainer.steps": 400}, {"train": "a"}, {})


def by_time(steps: int) -> Curve:
    points = [Point(steps // 4, 15, 2.0), Point(steps, 61, 1.0)]
    return Curve("r", points, {"trainer.steps": None, "trainer.minutes": 1.0}, {"train": "a"}, {})


@pytest.mark.parametrize(
    ("step", "expected"), [(100, 2.0), (200, 1.5), (282, 1.2522), (400, 1.0), (99, None), (401, None)]
)
def test_the_loss_between_two_evaluations_is_linear_in_the_logarithm_of_the_step(
    step: int, expected: float | None
) -> None:
    """Guards the reference loss against a formula by hand: 200 is half-way between 100 and 400; nothing is
    extrapolated."""
    mine = replace(BY_STEP, points=[Point(step, 1, 3.0)])
    ((_, found),) = BY_STEP.compare(mine)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found == (step, pytest.approx(expected, abs=1e-4))


def test_runs_with_the_same_time_are_compared_after_the_same_share_of_it() -> None:
    """Guards against the end of a run on a slow machine compared with the middle of the reference run, whose learning
    rate is still high."""
    slow, fast = by_time(400), by_time(1000)
    assert [found for _, found in fast.compare(slow)] == [(250, 2.0), (1000, 1.0)]
    longer = replace(slow, settings=slow.settings | {"trainer.minutes": 2.0})
    assert next(found for _, found in fast.compare(longer)) is None  # by step: 100 is before the first evaluation


def test_an_unfair_comparison_names_the_settings() -> None:
    """Guards against a difference that a changed setting explains, and against naming settings without an effect."""
    config = TrainConfig()
    mine = replace(BY_STEP, settings=effective_settings(config))
    changed = TrainConfig(
        name="x", seed=7, trainer=TrainerConfig(batch_size=3, log_every=1, threads=1), data=DataConfig(path="elsewhere")
    )
    other = replace(mine, settings=effective_settings(changed), data={"train": "b"})
    assert mine.differences(mine) == []
    assert mine.differences(other) == ["trainer.batch_size=3", "other train data"]
    older = {key: value for key, value in mine.settings.items() if key != "model.dropout"}  # before there was dropout
    assert replace(mine, settings=older).differences(mine) == []


def test_a_curve_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the files, which are read by later versions."""
    monkeypatch.setattr(curves, "CURVES", tmp_path)
    lines = [{"step": p.step, "seconds": p.seconds, "val/loss": p.loss, "epoch": 3.0} for p in BY_STEP.points]
    written = replace(BY_STEP, about={"machine": "m"})
    (tmp_path / "r.json").write_text(to_json(written, lines), encoding="utf-8")
    assert reference("r") == written
    assert reference("../r") is None
    assert reference(None) is None


def test_a_finished_run_of_a_recipe_becomes_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards what is written: losses, machine, commit and time; and a reference that ends early."""
    folder = tmp_path / "curves"  # which does not exist before the first curve
    monkeypatch.setattr(curves, "CURVES", folder)
    monkeypatch.setattr(command, "CURVES", folder)
    config = compose_run(["+experiment=shakespeare_cpu", "data.path=x"]).config
    lines = [{"step": step, "seconds": step / 20, "val/loss": 800 / step} for step in (250, 500, 998)]
    announced = (
        "runs/x: gpt, 0.8M parameters, char vocabulary of 69, cpu (2 threads, AMX), bfloat16, attention by sdpa\n"
    )
    (tmp_path / "log.txt").write_text(announced, encoding="utf-8")
    (tmp_path / "metrics.jsonl").touch()

    def save() -> None:
        points = [Point(int(line["step"]), line["seconds"], line["val/loss"]) for line in lines]
        mine = Curve("shakespeare_cpu", points, effective_settings(config), {"train": "a", "valid": "b"}, {})
        command.save(tmp_path, config, mine, lines)

    with pytest.raises(UserError, match="is not finished: 99 % of its budget"):
        save()
    lines[-1]["step"] = 1000
    save()
    assert str(folder) in capsys.readouterr().out
    found = reference("shakespeare_cpu")
    assert found is not None
    assert found.points[1] == Point(500, 25, 1.6)
    assert found.about["hardware"] == "cpu (2 threads, AMX), bfloat16"
    assert (found.about["steps"], found.about["seconds"]) == (1000, pytest.approx(50, abs=0.2))
    assert re.fullmatch(r"[0-9a-f]{10}|unknown", found.about["commit"])


@pytest.mark.parametrize("recipe", SHIPPED)
def test_a_shipped_curve_is_that_of_its_recipe(recipe: str) -> None:
    """Guards against a recipe that has changed since its reference run: make a new one, or delete the curve."""
    curve = reference(recipe)
    assert curve is not None
    path = [] if curve.settings["data.source"] == "primer" else ["data.path=x"]
    composed = compose_run([f"+experiment={recipe}", *path])
    assert composed.problems == []
    assert curve.differences(replace(curve, settings=effective_settings(composed.config))) == []
    assert curve.points[-1].loss == min(point.loss for point in curve.points)
    assert {"machine", "hardware", "commit", "date", "seconds", "steps"} <= set(curve.about)


@pytest.mark.slow
def test_a_recipes_run_ends_with_its_reference_and_the_command_draws_both(
    book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards the last lines of a run, the table and the picture, and a reference that is another experiment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(curves, "CURVES", tmp_path)
    monkeypatch.setattr(command, "CURVES", tmp_path)
    settings = [*TINY, "+experiment=shakespeare_cpu", "tokenizer.vocab_size=null", f"data.path={book}", "seed=2"]
    settings += ["attention.enabled=false"]

    def train(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", ["train.py", *settings, *more])
        train_command()
        return capsys.readouterr().out

    assert "reference" not in train("name=first")
    with pytest.raises(SystemExit):
        command.run_guarded(lambda: command.main(["run=runs/first", "save=true"]))
    assert "is not the recipe shakespeare_cpu: model.layers=1" in capsys.readouterr().err
    run = tmp_path / "runs" / "first"
    evaluations = command.read_evaluations(run)
    first = command.curve_of(run, "shakespeare_cpu", command.load_config(run), evaluations)
    first = replace(first, about={"machine": "m", "hardware": "h", "date": "d", "commit": "c"})
    (tmp_path / "shakespeare_cpu.json").write_text(to_json(first, evaluations), encoding="utf-8")

    out = train("name=same")
    loss = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])["val/loss"]
    assert f"val loss {loss:.4f} at step 6; the reference run of shakespeare_cpu had {loss:.4f}\n" in out
    assert "not like with like: optim.lr=0.002)\n" in train("name=other", "optim.lr=2e-3")
    command.main(["run=runs/other", "to=picture.png"])
    shown = capsys.readouterr().out
    assert shown.count("\n| ") == 3  # the line below the header, and two evaluations
    assert "not like with like, runs/other has optim.lr=0.002" in shown
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        command.run_guarded(lambda: command.main(["run=runs/other", "recipe=tatoeba"]))
    assert "tatoeba: has no reference curve; there are: shakespeare_cpu" in capsys.readouterr().err


def test_all_reference_curves_are_drawn_in_one_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards the picture of docs/recipes.md: a panel for each recipe, also where the last row is not full."""
    monkeypatch.chdir(tmp_path)
    command.main(["to=all.svg"])
    assert capsys.readouterr().out == "picture: all.svg\n"
    count = len(list(curves.CURVES.glob("*.json")))
    assert (tmp_path / "all.svg").read_text(encoding="utf-8").count('id="line2d_') > 2 * count
    for arguments in ([], ["to=all.svg", "save=true"]):
        with pytest.raises(SystemExit):
            command.run_guarded(lambda arguments=arguments: command.main(arguments))
    assert "run=runs/NAME is needed" in capsys.readouterr().err
