"""Settings that would run code, read other configurations, or write outside: refused, with nothing executed."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from configs.program import exit_code_of, run_guarded
from tests.conftest import generate_command, train_command
from training.command_line import hydra_settings, requested_runs


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["_target_=os.system"], "_target_: unknown setting"),
        (["+_target_=os.system"], "_target_: unknown setting"),
        (["++model._target_=os.system"], "model._target_: unknown setting"),
        (["model={_target_: os.system, _args_: [touch evil]}"], "model={_target_"),
        (["attention.probes=[{_target_: os.system, _args_: [touch evil]}]"], "attention.probes=[{"),
        (["attention.probes=[[a]]"], "must be a list of texts"),
        (["attention.probes=${seed}"], "must be a list of texts"),
        (["hydra.searchpath=[file:///tmp]"], "hydra.searchpath: unknown setting"),
        (["hydra/launcher=x"], "hydra/launcher: unknown setting"),
        (["+hydra.callbacks.evil._target_=os.system"], "unknown setting"),
        (["hydra.run.dir=/tmp/evil"], "hydra.run.dir: unknown setting"),
        (["--config-dir", "/tmp"], "--config-dir: no such flag"),
        (["--config-path=/tmp"], "no such flag"),
        (["--config-name", "evil"], "no such flag"),
        (["--experimental-rerun", "x.pickle"], "no such flag"),
        (["experiment=../../evil"], "no such choice"),
        (["data=../evil"], "no such choice"),
        (["name=../evil"], "a plain folder name is needed"),
        (["name=/tmp/evil"], "a plain folder name is needed"),
        (["name=a/b"], "a plain folder name is needed"),
        (["name=.."], "a plain folder name is needed"),
        (["name=\x1b[31m"], "a plain folder name is needed"),
        (["seed=${oc.decode:'1}"], "seed="),
        (["trainer.device=${hydra:runtime.cwd}"], "trainer.device"),
        (["task=${evil:1}"], "task"),
    ],
)
def test_a_setting_that_would_run_code_or_leave_its_place_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    reason: str,
) -> None:
    """Guards against Hydra's own ways to run code and to read other configurations, and names that are paths."""
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(lambda: requested_runs(arguments)) == 2  # before any work
    said = capsys.readouterr().err
    assert all(line.startswith("error: ") for line in said.splitlines())
    assert reason in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "setting",
    [
        "+hydra.callbacks.evil._target_=torch.load",
        "+hydra.searchpath=[file:///tmp]",
        "+hydra={callbacks:{evil:{_target_:torch.load}}}",
        "hydra/callbacks=evil",
        "hydra/job_logging=evil",
        "hydra.job_logging.handlers.file.class=os.system",
        "hydra/launcher=../../evil",
        "hydra/launcher=joblib,basic",
        "hydra/launcher@hydra.sweeper=joblib",
        "model@hydra.job_logging=small",
        "model@_global_.hydra=small",
        "hydra.launcher._target_=os.system",
        "++hydra.sweeper._target_=os.system",
        "hydra.launcher.n_jobs={_target_:os.system}",
        "+hydra.launcher.x=[{a:{_args_:[touch evil]}}]",
        "hydra.sweeper.sampler._target_=os.system",
        "hydra.sweeper.custom_search_space=os.system",
        "hydra.sweeper.params={hydra.callbacks.evil._target_:1}",
        "+hydra.sweeper.params.hydra.launcher._target_=os.system",
        "hydra.launcher.setup=[touch evil]",
        "hydra.launcher.partition='a\ntouch evil'",
        "hydra.launcher.additional_parameters={comment:'a\ntouch evil #'}",
        "+hydra.launcher.additional_parameters={a:[{b:'a\ntouch evil #'}]}",
        "+hydra.launcher.additional_parameters={'a\ntouch evil #':b}",
        "+hydra.launcher.additional_parameters={chdir:/tmp/evil}",
        "hydra.sweeper.storage=redis://evil.example",
        "hydra.sweeper.study_name=${oc.env:HOME}",
        "hydra.sweep.dir=/tmp/evil",
        "hydra.job.chdir=true",
        "~hydra.callbacks",
        "hydra={a:1},{b:1}",
        "hydra.sweeper.params={experiment:../../evil}",
        "hydra.sweeper.search_space={experiment:{type:categorical,choices:[../../evil]}}",
        "hydra.launcher.additional_parameters={export:'ALL,LD_PRELOAD=/tmp/evil.so'}",
        "hydra.launcher.srun_args=[--task-prolog=/tmp/evil]",
        "experiment=quickstart,../../evil",
        "experiment=glob(*)",
        "model=choice(small,/tmp/evil)",
        "model@_global_=small,large",
        "evil={_target_:os.system},{b:1}",
    ],
)
def test_a_sweep_by_plugins_runs_nothing_but_plugins(setting: str) -> None:
    """Guards the command lines that Hydra itself reads: only names of plugins and plain options reach it."""
    for others in ([], ["hydra/sweeper=optuna", "optim.lr=1e-3,1e-2"]):
        arguments = ["-m", *others, setting]
        assert exit_code_of(partial(swept_or_not, arguments)) == 2


def test_a_study_of_somebody_else_does_not_run_code() -> None:
    """Guards against the states of CMA-ES in the database of a study, which Optuna unpickles."""
    swept = ["-m", "hydra/sweeper=optuna", "optim.lr='interval(1e-4,1e-2)'", "hydra/sweeper/sampler=cmaes"]
    assert hydra_settings(swept)
    assert exit_code_of(lambda: hydra_settings([*swept, "hydra.sweeper.storage=sqlite:///evil.db"])) == 2


def swept_or_not(arguments: list[str]) -> None:
    """Read a command line as train.py does."""
    assert hydra_settings(arguments) or requested_runs(arguments)


def test_the_options_of_plugins_reach_them() -> None:
    """Guards the sweeps of docs/sweeps.md."""
    options = ["hydra.sweeper.n_trials=20", "hydra/sweeper/sampler=tpe", "hydra.sweeper.sampler.seed=1"]
    options += [
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.gpus_per_node=1",
        "hydra.sweeper.storage=sqlite:///a.db",
    ]
    options += ["+hydra.launcher.additional_parameters={qos:long}"]
    swept = ["hydra/sweeper=optuna", "optim.lr='tag(log,interval(1e-4,1e-2))'"]
    assert hydra_settings(["-m", *swept, *options]) == [*swept, *options]


@pytest.mark.parametrize("key", ["data.path", "data.cache", "name", "runs", "resume", "init_from"])
def test_an_interpolation_in_a_path_stays_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """Guards against the value of an environment variable that is sent to a server, or written, as part of a path."""
    from configs.compose import normalise
    from training.config import value_at
    from training.new_or_resumed_run import compose_run

    monkeypatch.setenv("CHUMOKU_SECRET", "hunter2")
    monkeypatch.chdir(tmp_path)
    composed = compose_run([normalise(f"{key}=http://example.org/${{oc.env:CHUMOKU_SECRET}}")])
    assert "hunter2" not in f"{composed.problems} {composed.config}"
    if key in ("data.path", "data.cache", "runs"):
        assert value_at(composed.config, key) == "http://example.org/${oc.env:CHUMOKU_SECRET}"


@pytest.mark.parametrize("checkpoint", ["../../../etc", "step-00000006", "/etc", "..", "last/../../.."])
def test_a_checkpoint_is_one_of_two_words_for_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checkpoint: str
) -> None:
    """Guards against a path in place of a checkpoint's name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py", "run=runs/x", f"checkpoint={checkpoint}", "prompt=x"])
    with pytest.raises(SystemExit):
        generate_command()
    assert capsys.readouterr().err == f"error: checkpoint={checkpoint}: must be best or last\n"


@pytest.mark.parametrize(
    "step", ["../../secret", "/etc/passwd", "step_00000001/../../x", "..", "step_00000001.safetensors"]
)
def test_a_recording_is_named_and_not_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    """Guards `python -m attention_maps … step=` against other files."""
    from attention_maps.__main__ import COMMANDS, HELP
    from configs.commands import run_command

    folder = tmp_path / "run" / "attention"
    folder.mkdir(parents=True)
    (folder / "step_00000001.safetensors").write_bytes(b"")
    arguments = ["show", str(tmp_path / "run"), f"step={step}"]
    with pytest.raises(SystemExit) as left:
        run_guarded(lambda: run_command("attention_maps", HELP, COMMANDS, arguments, subject="runs/NAME"))
    assert left.value.code == 2
    assert f"step={step}: not recorded in" in capsys.readouterr().err


def test_escape_sequences_in_a_name_do_not_reach_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a file name that clears the screen, sets the title or hides a line of an error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\x1b[2J\x1b]0;evil\x07\r.txt").write_bytes(b"\xff")
    monkeypatch.setattr(sys, "argv", ["train.py", "data=text", "data.path=a\x1b[2J\x1b]0;evil\x07\r.txt"])
    with pytest.raises(SystemExit):
        train_command()
    said = capsys.readouterr().err
    assert "not UTF-8" in said
    assert not set(said) & set("\x1b\x07\r")
