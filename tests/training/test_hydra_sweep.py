"""Sweeps that Hydra's sweepers and launchers run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from configs.errors import UserError
from tests.conftest import ROOT, TINY
from training.command_line import hydra_settings
from training.hydra_sweep import hydra_sweep

SMALL = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.steps=2", "trainer.test=false"]


def train(folder: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "train.py"), *SMALL, "attention=off", *settings]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def losses(folder: Path) -> dict[str, float]:
    """Return the bits per byte of each run."""
    lines = {path.parent.name: path.read_text().splitlines()[-1] for path in folder.glob("runs/*/metrics.jsonl")}
    return {name: json.loads(line)["val/bits_per_byte"] for name, line in lines.items()}


@pytest.mark.slow
def test_optuna_minimises_the_validation_loss_of_runs_that_joblib_starts(tmp_path: Path, book: Path) -> None:
    """Guards the two plugins together: what is minimised, the names of runs, and files outside the run folders; and the
    versions with which Optuna stores a study."""
    plugins = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2", "hydra/launcher=joblib"]
    plugins += ["hydra.sweeper.storage=sqlite:///study.db", "hydra.sweeper.study_name=first"]
    done = train(tmp_path, "-m", "optim.lr=interval(1e-5,1e-1)", *plugins)
    assert done.returncode == 0, done.stderr
    result = losses(tmp_path)
    assert len(result) == 2
    assert (tmp_path / "study.db").is_file()
    best = yaml.safe_load((tmp_path / "runs/optimization_results.yaml").read_text())
    assert best["best_value"] == min(result.values())
    name = min(result, key=lambda name: result[name])
    assert name.endswith(f"lr-{best['best_params']['optim.lr']:.4g}")
    assert f"{best['best_value']:.4f} bits per byte in runs/{name}" in done.stdout


@pytest.mark.slow
def test_failed_trial_does_not_end_a_sweep(tmp_path: Path, book: Path) -> None:
    """Guards against a night that ends with the first bad draw, results in `runs` whatever `runs=` says, and a fixed
    value, here the earlier `model.heads=2`, that replaces all values of the sweep."""
    drawn = ["hydra/sweeper/sampler=random", "hydra.sweeper.sampler.seed=2", "hydra.sweeper.n_trials=3"]
    done = train(tmp_path, "-m", "model.heads=choice(3,1,4)", "hydra/sweeper=optuna", *drawn, "runs=my runs")
    assert done.returncode == 2
    assert "error: model.width=32: must be a multiple of model.heads=3\n" in done.stderr
    assert done.stderr.endswith("error: 1 run of the sweep failed\n")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
    names = {path.name for path in (tmp_path / "my runs").iterdir()}
    assert names == {"gpt-text-heads-1", "gpt-text-heads-4", "optimization_results.yaml"}
    best = yaml.safe_load((tmp_path / "my runs/optimization_results.yaml").read_text())
    assert best["best_params"]["model.heads"] in (1, 4)


def test_a_value_after_a_sweep_of_the_same_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a sweep of equal runs."""
    monkeypatch.chdir(tmp_path)
    sweep = ["model.heads=choice(1,2)", "hydra/sweeper=optuna", "++model.heads=4"]
    with pytest.raises(UserError, match=r"^model\.heads=4: replaces all values of model\.heads=choice\(1,2\)"):
        hydra_sweep(sweep, lambda config: None)


@pytest.mark.parametrize(
    ("sweep", "problem"),
    [
        (["optim.lr=interval(1e-4,1e-2)", "model.width=30"], "model.width=30: must be a multiple of model.heads=4"),
        (["model.heads=choice(2,many)"], "model.heads=many: must be a whole number"),
        (["trainer.minutes=interval(1,2)", "model.haeds=choice(2,4)"], "model.haeds: unknown setting"),
        (["model.layers=range(1.5,3.5)"], "model.layers=1.5: must be a whole number"),
        (["optim=choice(adamw,adam)"], "optim=adam: no such choice"),
    ],
)
def test_a_sweep_in_which_runs_cannot_start_does_not_start(
    sweep: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a sweep that Hydra ends at the first value of another type, and one in which every run fails."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as raised:
        hydra_sweep([*sweep, "hydra/sweeper=optuna"], lambda config: None)
    (message,) = raised.value.args
    assert message.startswith(problem)
    assert not list(tmp_path.iterdir())


def test_a_default_that_suits_no_fixed_value_may_be_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an error about `model.heads=4`, the default, in a sweep of 3 and 5 heads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train.py"])
    seen: list[int] = []
    sweep = ["model.width=30", "model.heads=3,5", "hydra/launcher=basic"]
    with pytest.raises(UserError, match=r"^2 runs of the sweep failed$"):
        hydra_sweep(sweep, lambda config: seen.append(config.model.heads))
    assert seen == [3, 5]
    assert not list(tmp_path.glob("runs/*/"))


@pytest.mark.parametrize("flags", [[], ["-m"]])
@pytest.mark.parametrize(
    ("setting", "instead"),
    [
        ("hydra.run.dir=out", "runs=FOLDER and name=NAME"),
        ("+hydra.job.chdir=true", "stays in the folder where it was started"),
        ("hydra.sweep.dir=out", "runs=FOLDER"),
        ("hydra.sweep.subdir=x", "runs=FOLDER"),
        ("hydra.output_subdir=null", "config.yaml"),
        ("hydra.job.name=x", "name=NAME"),
        ("hydra.verbose=true", "log.txt"),
        ("hydra/job_logging=colorlog", "log.txt"),
    ],
)
def test_a_setting_of_hydra_that_is_not_used_is_answered_with_ours(
    flags: list[str], setting: str, instead: str
) -> None:
    """Guards against advice about sweeps and commas."""
    with pytest.raises(UserError) as raised:
        hydra_settings([*flags, setting, "optim.lr=1e-3"])
    (message,) = raised.value.args
    assert message.startswith(f"{setting.partition('=')[0].lstrip('+')}: is not used here: ")
    assert instead in message


@pytest.mark.slow
def test_the_options_of_plugins_are_printed(tmp_path: Path, book: Path) -> None:
    """Guards against a question about a sweep that starts it."""
    done = train(tmp_path, "--cfg", "hydra", "-m", "optim.lr=1e-3,1e-2", "hydra/sweeper=optuna")
    assert (done.returncode, done.stderr) == (0, "")
    assert "n_trials: 20" in done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_submitit_runs_each_combination_as_a_job(tmp_path: Path, book: Path) -> None:
    """Guards the launcher of clusters, here with a local job."""
    done = train(tmp_path, "-m", "optim.lr=choice(1e-3)", "hydra/launcher=submitit_local")
    assert done.returncode == 0, done.stderr
    assert [name.partition("-lr-")[2] for name in losses(tmp_path)] == ["0.001"]


@pytest.mark.slow
def test_an_error_of_the_user_is_one_line(tmp_path: Path, book: Path) -> None:
    """Guards against a traceback, and against runs that start before the settings are checked."""
    wrong = train(tmp_path, "-m", "optim.lr=1e-3,1e-2", "hydra/launcher=nonsense")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: ")
    assert "pip install 'chumoku[sweeps]'" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_settings_of_hydra_need_a_sweep() -> None:
    """Guards against plugins that are silently ignored without -m, and a sweep in every process of torchrun."""
    assert hydra_settings(["-m", "optim.lr=1e-3,1e-2"]) == []
    with pytest.raises(UserError) as raised:
        hydra_settings(["hydra/launcher=joblib", "seed=1"])
    assert raised.value.args == ("hydra/sweeper, hydra/launcher: choose how a sweep is run; add -m",)
    with pytest.raises(UserError, match="resume"):
        hydra_settings(["-m", "hydra/launcher=joblib", "resume=runs/x"])
    with pytest.raises(UserError, match="start torchrun once for each run"):
        hydra_settings(["-m", "hydra/launcher=joblib", "optim.lr=1e-3,1e-2"], processes=2)
