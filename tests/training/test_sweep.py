"""A sweep: every run is trained even if others fail, named by what varies, and ranked at the end."""

import gc
import json
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from configs.compose import normalise
from configs.errors import UserError
from configs.sweep_points import LARGEST_SWEEP, Point, sweep_points
from model.gpt import GPT
from tests.conftest import TINY, train_command
from tests.test_resume import start_and_stop
from training.config import TrainConfig
from training.new_or_resumed_run import ComposedRun, compose_run
from training.run_folder.log import METRICS
from training.sweep import Outcome, ranking, reserved, run_name, sweep

SMALL = [
    *TINY,
    "data=text",
    "data.path=book.txt",
    "tokenizer=char",
    "trainer.steps=2",
    "trainer.test=false",
    "attention=off",
]


def points_of(*settings: str) -> list[Point]:
    result: list[str] = []
    points = sweep_points([normalise(setting) for setting in settings], result)
    assert result == []
    return points


def models() -> list[GPT]:
    """Return all GPTs in memory."""
    return [thing for thing in gc.get_objects() if type(thing) is GPT]


@pytest.mark.slow
def test_a_point_that_fails_does_not_end_the_sweep(
    tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards the other runs of a sweep against one that diverges, and against exit code 0 or no message after a
    failure."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["train.py", "-m", *SMALL, "optim.lr=1e18,1e-3,3e-2", "model.feed_forward=64,1000000000000"]
    )
    before = models()  # of other tests
    with pytest.raises(SystemExit) as left:
        train_command()
    assert left.value.code == 2
    output = capsys.readouterr()
    assert "error: step 2, the gradient is not finite (loss nan, norm nan)" in output.err
    assert output.err.endswith("error: 4 of 6 runs failed\n")
    assert "run 3 of 6: optim.lr=0.001 model.feed_forward=64\n" in output.out
    header, *rows, best = output.out[output.out.index("\nlr ") :].splitlines()[1:]
    assert header.split() == ["lr", "feed_forward", "loss", "bits/byte", "step", "time", "run"]
    assert [row.split()[:2] for row in rows] == [
        *(["0.03", "64"], ["0.001", "64"], ["1e+18", "64"]),
        *([rate, "1000000000000"] for rate in ("1e+18", "0.001", "0.03")),
    ]
    for row, rate in zip(rows, (3e-2, 1e-3), strict=False):
        run = tmp_path / row.split()[-1]
        assert run.name == f"gpt-text-lr-{rate}-feed_forward-64"
        assert OmegaConf.load(run / "config.yaml").optim.lr == rate
        (metrics,) = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        assert row.split()[2:5] == [f"{metrics['val/loss']:.4f}", f"{metrics['val/bits_per_byte']:.4f}", "2"]
    assert "failed" in rows[2]
    assert "the gradient is not finite" in rows[2]
    assert best == "best: optim.lr=0.03 model.feed_forward=64"
    left_behind = [model for model in models() if all(model is not other for other in before)]
    assert left_behind == []  # a GPU may hold but one


def test_ranking_is_by_bits_per_byte() -> None:
    """Guards against the tokenizer with the longest, or the most lost, tokens as the best one: losses per token are not
    comparable."""
    losses = {"8": (0.9, 3.1), "24": (1.2, 2.2), "200": (2.0, 1.9)}
    outcomes = [
        Outcome({"vocab_size": size}, Path(size), 1.0, None, {"step": 2, "val/loss": loss, "val/bits_per_byte": bits})
        for size, (loss, bits) in losses.items()
    ]
    _, *rows, best = ranking(outcomes)
    assert [row.split()[0] for row in rows] == ["200", "24", "8"]
    assert best == "best: vocab_size=200"


def test_a_sweep_after_a_single_value_wins() -> None:
    """Guards against a value set by an alias, for example, that counts as a run of its own."""
    points = points_of("optim.lr=3", "optim.lr=1,2")
    assert [point.varied for point in points] == [{"optim.lr": "1"}, {"optim.lr": "2"}]
    assert [compose_run(point.settings).config.optim.lr for point in points] == [1, 2]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["seed=1,2,1"], "seed=1 and seed=1"),
        (["optim.lr=1e-3,0.001"], "optim.lr=0.001 and optim.lr=0.001"),
        (["optim.lr=1,2", "optim.lr=3"], "optim.lr=3 and optim.lr=3"),
        (["optim.lr=1,2", "++optim.lr=3,4"], "optim.lr=3 and optim.lr=3"),
        (["schedule=cosine,linear", "schedule.kind=wsd", "schedule.decay=0.2"], "schedule=cosine and schedule=linear"),
    ],
)
def test_a_run_that_is_asked_for_twice_is_refused(
    values: list[str],
    said: str,
    tmp_path: Path,
    book: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against hours spent on the same run twice, and a ranking in which one of two equal runs is the best."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", *SMALL, *values])
    with pytest.raises(SystemExit) as left:
        train_command()
    assert left.value.code == 2
    assert capsys.readouterr().err == f"error: {said} are the same run: remove one\n"
    assert not (tmp_path / "runs").exists()


def test_unreadable_metrics_fail_their_own_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a night's sweep that ends with a traceback because a line of one run is damaged."""
    damage = iter([b'{"st\n', b"", b"\xff\n"])

    def train(config: TrainConfig) -> None:
        line = json.dumps({"step": 2, "val/loss": 1.0, "val/bits_per_byte": 1.0})
        (tmp_path / str(config.name) / METRICS).write_bytes(f"{line}\n".encode() + next(damage))

    runs = [ComposedRun(TrainConfig(runs=str(tmp_path)), varied={"seed": str(seed)}) for seed in (1, 2, 3)]
    with pytest.raises(UserError, match="2 of 3 runs failed"):
        sweep(runs, train)
    captured = capsys.readouterr()
    assert captured.err.count("metrics.jsonl: damaged, the run cannot be ranked (") == 2
    assert "Traceback" not in captured.err
    assert captured.out.splitlines()[-1] == "best: seed=2"


def test_process_settings_of_a_run_do_not_reach_the_next(tmp_path: Path) -> None:
    """Guards against trainer.threads=3,null that trains both runs with three threads, and trainer.deterministic that
    affects later runs."""
    settings: list[tuple[int, bool]] = []

    def train(config: TrainConfig) -> None:
        settings.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
        torch.set_num_threads(3)
        torch.use_deterministic_algorithms(True)

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    sweep([ComposedRun(TrainConfig(runs=str(tmp_path)), varied={"seed": seed}) for seed in "12"], train)
    assert settings == [before, before]
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


@pytest.mark.slow
def test_an_interrupt_ends_the_whole_sweep_with_everything_saved(tmp_path: Path, book: Path) -> None:
    """Guards against Ctrl-C that ends one run and starts the next, or loses the training of that run."""
    code, output = start_and_stop(
        tmp_path,
        ["-m", *SMALL, "optim.lr=1e-3,3e-3", "trainer.steps=100000", "trainer.evaluate_every=50000"],
        "step 3/",
        signal.SIGINT,
    )
    assert code == 130, output
    assert "SIGINT: saved step" in output
    assert "Traceback" not in output
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["gpt-text-lr-0.001"]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (["optim.lr=1e-3,3e-4"], ["gpt-primer-lr-0.001", "gpt-primer-lr-0.0003"]),
        (["name=mine", "seed=1,2"], ["mine-seed-1", "mine-seed-2"]),
        (["optim.kind=adamw,muon", "schedule.kind=wsd"], ["gpt-primer-kind-adamw", "gpt-primer-kind-muon"]),
        (["optim.kind=muon,adamw", "schedule.kind=wsd,linear"], ["gpt-primer-optim-kind-muon-schedule-kind-wsd"]),
        (["optim=adamw,muon"], ["gpt-primer-optim-adamw", "gpt-primer-optim-muon"]),
        (["task=gpt,translate"], ["gpt-primer", "translate-primer"]),
        (["experiment=demo_gpt,demo_enja"], ["demo_gpt", "demo_enja"]),
        (["experiment=demo_gpt", "model.dropout=0.1,0"], ["demo_gpt-dropout-0.1", "demo_gpt-dropout-0"]),
        (["trainer.patience=null,3", "optim.clip=0,1"], ["gpt-primer-patience-null-clip-0"]),
        (["attention.probes=['a b, c'],[]"], ["gpt-primer-probes-_a_b_c", "gpt-primer-probes-"]),
    ],
)
def test_runs_of_a_sweep_are_named_by_what_differs(settings: list[str], names: list[str], tmp_path: Path) -> None:
    """Guards against names like gpt-text, gpt-text-2 and gpt-text-3 that do not distinguish the runs."""
    result = [
        run_name(compose_run([*point.settings, f"runs={tmp_path}"]).config, point.varied)
        for point in points_of(*settings)
    ]
    assert result[: len(names)] == names
    assert all(compose_run([f"name={name}"]).problems == [] for name in result)


def test_a_second_sweep_gets_free_names(tmp_path: Path) -> None:
    """Guards against the second of two equal sweeps rejected, or overwriting the first."""
    first, _ = points_of("optim.lr=1e-3,3e-4")
    config = compose_run([*first.settings, f"runs={tmp_path}"]).config
    for name in ("gpt-primer-lr-0.001", "gpt-primer-lr-0.001-2", "gpt-primer-lr-0.001-3"):
        assert run_name(config, first.varied) == name
        (tmp_path / name).mkdir()


def test_two_runs_that_start_at_once_get_names_of_their_own(tmp_path: Path) -> None:
    """Guards against parallel runs whose names are cut to the same 80 characters, or rounded to the same number."""
    points = points_of(f"attention.probes=['{'a ' * 60}'],['{'a ' * 60}b']")
    configs = [compose_run([*point.settings, f"runs={tmp_path}/runs"]).config for point in points]
    assert len({run_name(config, point.varied) for config, point in zip(configs, points, strict=True)}) == 1
    together = [(config, point.varied) for config, point in zip(configs, points, strict=True)] * 4
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda each: reserved(*each).name, together))
    assert len(set(names)) == 8
    assert {path.name for path in (tmp_path / "runs").iterdir()} == set(names)


def test_a_folder_of_runs_that_cannot_be_made_is_left_to_training(tmp_path: Path) -> None:
    """Guards against an endless search for a free name, e.g. on a disk that is not mounted."""
    (tmp_path / "runs").symlink_to("unmounted")
    (point,) = points_of("seed=5")
    config = compose_run([*point.settings, f"runs={tmp_path}/runs"]).config
    assert reserved(config, {}).name == "gpt-primer"


def test_a_long_value_does_not_make_an_impossible_name(tmp_path: Path) -> None:
    """Guards against a Japanese setting that exceeds the file system's 255 bytes, and two such runs with one name."""
    point, other = points_of(f"attention.probes=['{'水' * 200}'],['{'水' * 201}']")
    config = compose_run([*point.settings, f"runs={tmp_path}"]).config
    (tmp_path / run_name(config, point.varied)).mkdir()
    (tmp_path / run_name(config, other.varied)).mkdir()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("optim.lr=interval(0,1)", "optim.lr=interval(0,1): "),
        ("experiment=glob(demo*)", "experiment=glob(demo*): "),
        (f"seed=range({LARGEST_SWEEP + 1})", f"more than {LARGEST_SWEEP}"),
        ("seed=range(10000000000)", f"more than {LARGEST_SWEEP}"),
        ("seed=range(0)", "seed=range(0): contains no values"),
        ("seed=range(0,10,0)", "seed=range(0,10,0): "),
    ],
)
def test_what_cannot_be_swept_is_one_message(setting: str, words: str) -> None:
    """Guards against Hydra's traceback, a typing mistake that requests a million runs, and the same run several
    times."""
    result: list[str] = []
    sweep_points([normalise(each) for each in setting.split()], result)
    assert len(result) == 1
    assert words in result[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["optim.lr=1e-3,3e-4"], "add -m"),
        (["-m", "optim.lr=1e-3,3e-4", "resume=runs/x"], "init_from="),
        (["-m", "optim.lr=1e-3,fast"], "optim.lr=fast"),
    ],
)
def test_a_wrong_sweep_is_refused_before_the_first_run(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against a mistake in the last value that is found after hours, and Hydra's grammar error with exit code
    1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    with pytest.raises(SystemExit) as left:
        train_command()
    assert left.value.code == 2
    assert re.search(f"^error: .*{re.escape(words)}", capsys.readouterr().err, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []
