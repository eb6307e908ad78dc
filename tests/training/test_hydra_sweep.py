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
    """Guards the two plugins together: what is minimised, the names of runs, and files outside the run folders."""
    plugins = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2", "hydra/launcher=joblib"]
    done = train(tmp_path, "-m", "optim.lr=interval(1e-5,1e-1)", *plugins)
    assert done.returncode == 0, done.stderr
    found = losses(tmp_path)
    assert len(found) == 2
    best = yaml.safe_load((tmp_path / "runs/optimization_results.yaml").read_text())
    assert best["best_value"] == min(found.values())
    name = min(found, key=lambda name: found[name])
    assert name.endswith(f"lr-{best['best_params']['optim.lr']:.4g}")
    assert f"{best['best_value']:.4f} bits per byte in runs/{name}" in done.stdout


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
    with pytest.raises(UserError, match="add -m"):
        hydra_settings(["hydra/launcher=joblib", "optim.lr=1e-3,1e-2"])
    with pytest.raises(UserError, match="resume"):
        hydra_settings(["-m", "hydra/launcher=joblib", "resume=runs/x"])
    with pytest.raises(UserError, match="start torchrun once for each run"):
        hydra_settings(["-m", "hydra/launcher=joblib", "optim.lr=1e-3,1e-2"], processes=2)
