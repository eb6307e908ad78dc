"""Composing the config of one run: its budget, the changes that a resume allows, and what `init_from` inherits."""

from dataclasses import replace
from pathlib import Path

import pytest

from configs.compose import normalise
from training.config import TrainConfig
from training.new_or_resumed_run import ComposedRun, compose_run
from training.run_folder.saved_config import save_config


def composed(*settings: str) -> ComposedRun:
    return compose_run([normalise(setting) for setting in settings])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run that contains only its config."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "old").mkdir(parents=True)
    return Path("runs/old")


def save(run: Path, **trainer: float | None) -> None:
    config = TrainConfig(name="old", experiment="demo_gpt")
    for key, value in trainer.items():
        setattr(config.trainer, key, value)
    save_config(config, run)


STEPS, MINUTES, BOTH = {"steps": 300, "minutes": None}, {"steps": None, "minutes": 4.0}, {"steps": 300, "minutes": 4.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved", "given", "steps", "minutes"),
    [
        (STEPS, [], 300, None),
        (STEPS, ["trainer.minutes=5"], None, 5.0),
        (STEPS, ["trainer.steps=500"], 500, None),
        (STEPS, ["trainer.steps=500", "trainer.minutes=5"], 500, 5.0),
        (MINUTES, [], None, 4),
        (MINUTES, ["trainer.steps=500"], 500, None),
        (MINUTES, ["trainer.minutes=5"], None, 5.0),
        (MINUTES, ["trainer.minutes=5", "trainer.steps=500"], 500, 5.0),
        (BOTH, [], 300, 4),
        (BOTH, ["trainer.minutes=5"], None, 5.0),
        (BOTH, ["trainer.steps=500"], 500, None),
        (BOTH, ["++trainer.steps=500"], 500, None),
        (BOTH, ["trainer.minutes=null"], 300, None),
        (BOTH, ["trainer.steps=500", "trainer.minutes=null"], 500, None),
        (STEPS, ["trainer.steps=null", "trainer.minutes=5"], None, 5.0),
    ],
)
def test_a_budget_given_alone_on_resume_is_the_whole_budget(
    saved: dict[str, float | None], given: list[str], steps: int | None, minutes: float | None, run: Path
) -> None:
    """Guards against `resume=… trainer.minutes=30` ignored because the run has a number of steps, and vice versa."""
    save(run, **saved)
    result = composed(f"resume={run}", *given)
    assert result.problems == []
    assert (result.config.trainer.steps, result.config.trainer.minutes) == (steps, minutes)
    before = {"steps": saved["steps"], "minutes": saved["minutes"]}
    after = {"steps": steps, "minutes": minutes}
    assert result.changes == [
        f"trainer.{key}={after[key]} (was {before[key]})" for key in before if after[key] != before[key]
    ]


@pytest.mark.parametrize(
    ("given", "steps", "minutes"),
    [
        ([], 2000, None),
        (["trainer.minutes=5"], None, 5.0),
        (["trainer.minutes=5", "trainer.steps=100"], 100, 5),
        (["experiment=demo_enja", "trainer.steps=100"], 100, None),
        (["experiment=shakespeare_gpu"], 2500, 1),
        (["experiment=shakespeare_gpu", "trainer.minutes=2"], None, 2),
        (["experiment=shakespeare_gpu", "trainer.steps=9000"], 9000, None),
        (["experiment=demo_enja", "debug=two_steps"], 2, 3.5),
    ],
)
def test_a_budget_given_alone_at_the_start_is_the_whole_budget(
    given: list[str], steps: int | None, minutes: float | None
) -> None:
    """Guards against `trainer.minutes=30` that ends after the default steps, and 9000 steps that end with the
    recipe's minutes."""
    result = composed(*given)
    assert result.problems == []
    assert (result.config.trainer.steps, result.config.trainer.minutes) == (steps, minutes)


@pytest.mark.parametrize(
    ("given", "warmup"),
    [
        ([], 100),
        (["trainer.steps=50"], 5),
        (["trainer.steps=5"], 0),
        (["schedule=inverse_sqrt"], 200),
        (["schedule=inverse_sqrt", "trainer.steps=100000"], 4000),
        (["experiment=gpt2_124m", "data.path=x.txt"], 700),
        (["experiment=gpt2_124m", "data.path=x.txt", "trainer.steps=1000"], 100),
        (["experiment=demo_gpt"], 100),
        (["trainer.steps=50", "schedule.warmup=20"], 20),
        (["trainer.steps=50", "++schedule.warmup=60"], 60),
    ],
)
def test_a_warm_up_that_nobody_gave_leaves_room_for_training(given: list[str], warmup: int) -> None:
    """Guards against 50 steps that never reach the peak learning rate, and changes of a warm-up that the user sets."""
    result = composed(*given)
    assert result.problems == []
    assert result.config.schedule.warmup == warmup


def test_resume_keeps_warmup_unless_schedule_changes(run: Path) -> None:
    """Guards against a bend in the learning rate at a resume, and a new schedule that never reaches its peak."""
    save(run, steps=300)
    assert composed(f"resume={run}").config.schedule.warmup == 100
    assert composed(f"resume={run}", "trainer.steps=200").config.schedule.warmup == 100
    assert composed(f"resume={run}", "schedule=inverse_sqrt").config.schedule.warmup == 30
    assert composed(f"resume={run}", "schedule=cosine", "trainer.steps=200").config.schedule.warmup == 100
    assert composed(f"resume={run}", "schedule=cosine", "schedule.warmup=7").config.schedule.warmup == 7


def test_a_run_without_any_budget_is_refused(run: Path) -> None:
    """Guards against training without an end."""
    save(run, **MINUTES)
    for result in (composed("trainer.steps=null"), composed(f"resume={run}", "trainer.minutes=null")):
        assert [problem.partition(":")[0] for problem in result.problems] == [
            "trainer.steps and trainer.minutes are both null"
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("model.width=64", "model.width"),
        ("debug=profile", "debug"),
        ("experiment=demo_enja", "experiment"),
        ("name=other", "name"),
        ("task=translate", "task"),
        ("optim.kind=muon", "optim.kind"),
        ("optim=muon", "optim.kind"),
        ("seed=2", "seed"),
    ],
)
def test_what_would_make_a_resumed_run_another_one_is_refused(setting: str, key: str, run: Path) -> None:
    """Guards against a setting that is silently ignored."""
    save(run)
    (problem,) = composed(f"resume={run}", setting).problems
    assert problem.startswith(f"{key}")
    assert "cannot change on resume" in problem


def test_title_and_licence_may_be_stated_on_resume(run: Path) -> None:
    """Guards against a run that can never be cited, because its licence was chosen after it began."""
    save(run)
    result = composed(f"resume={run}", "title=Stories of Ken", "licence='CC BY 4.0'")
    assert result.problems == []
    assert (result.config.title, result.config.licence) == ("Stories of Ken", "CC BY 4.0")


def test_what_a_resumed_run_has_anyway_may_be_repeated(run: Path) -> None:
    """Guards against rejecting the original command with `resume` added, and against depending on a renamed folder's
    old name."""
    save(run)
    repeated = ["experiment=demo_gpt", "task=gpt", "name=old", "model.width=128", "runs=runs", "optim.lr=0.5"]
    assert composed(f"resume={run}", *repeated).problems == []
    renamed = run.rename("runs/new")
    for name in ("new", "old"):
        assert composed(f"resume={renamed}", f"name={name}").problems == []


def test_a_tokenizer_of_any_size_may_be_repeated_where_none_is_named(run: Path) -> None:
    """Guards against rejecting `tokenizer=bpe` for a run whose vocabulary size was derived from its data."""
    config = TrainConfig(name="old", experiment="demo_gpt")
    config.tokenizer.kind, config.tokenizer.vocab_size = "bpe", 700
    save_config(config, run)
    assert composed(f"resume={run}", "tokenizer=bpe").problems == []
    assert composed(f"init_from={run}", "tokenizer=bpe").problems == []
    [problem] = composed(f"init_from={run}", "tokenizer.vocab_size=800").problems
    assert problem.startswith("tokenizer.vocab_size=800")


def test_settings_of_before_are_told_apart_from_new_ones(run: Path) -> None:
    """Guards against a log that does not list the settings that a resume changes."""
    save(run)
    result = composed(f"resume={run}", "optim.lr=0.5", "schedule=linear", "data.cache=~/cache")
    assert result.problems == []
    assert result.changes == [
        "data.cache=~/cache (was .cache/chumoku)",
        "optim.lr=0.5 (was 0.001)",
        "schedule.kind=linear (was cosine)",
        "schedule.warmup=200 (was 100)",
    ]


def test_home_folders_are_found_wherever_a_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a folder named `~` next to the data, and RuntimeError for an unknown user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "runs" / "old").mkdir(parents=True)
    save(tmp_path / "runs" / "old")
    for key in ("resume", "init_from"):
        assert composed(f"{key}=~/runs/old").problems == []
        assert "no such run folder" in composed(f"{key}=~nobody/runs/old").problems[0]


def test_a_run_starts_from_one_place(run: Path) -> None:
    """Guards against training another model than the one that was named first."""
    save(run)
    for key in ("resume", "init_from"):
        assert composed(f"{key}=runs/none", f"{key}={run}").problems == [
            f"{key}= is given twice: a run has one starting point"
        ]
    assert "exclude each other" in composed(f"resume={run}", f"init_from={run}").problems[0]


@pytest.mark.slow
def test_the_search_for_nan_can_be_switched_on_for_a_new_and_a_resumed_run(run: Path) -> None:
    """Guards against `+debug=nan` read as a number by Hydra, and a bad step that only a new run can search."""
    save(run, **STEPS)
    for settings in (["+debug=nan"], ["debug=nan"], [f"resume={run}", "+debug=nan"]):
        result = composed(*settings)
        assert result.problems == []
        assert result.config.trainer.find_nan
    assert composed(f"resume={run}", "+debug=overfit").problems


@pytest.mark.slow
def test_a_search_for_nan_does_not_change_the_saved_recipe(run: Path) -> None:
    """Guards against a run that is trained in small steps for good because it was debugged once."""
    save(run, **STEPS)
    before = (run / "config.yaml").read_bytes()
    save_config(replace(composed(f"resume={run}", "+debug=nan").config, resume=None), run)
    assert (run / "config.yaml").read_bytes() == before


def test_a_first_evaluation_in_minutes_needs_evaluations_in_minutes(run: Path) -> None:
    """Guards against a setting that is silently ignored, and against rejecting a user who makes a recipe with both
    settings, or its run, evaluate by steps."""
    first, problem = "trainer.first_evaluation_minutes=0.5", "trainer.first_evaluation_minutes=0.5: needs"
    save(run, evaluate_minutes=None, first_evaluation_minutes=0.3)
    for given in ([first], ["experiment=demo_gpt", "trainer.evaluate_minutes=null", first], [f"resume={run}", first]):
        (result,) = composed(*given).problems
        assert result.startswith(problem)
    for given in (
        [first, "trainer.evaluate_minutes=2"],
        ["experiment=demo_gpt", first],
        ["experiment=demo_gpt", "trainer.evaluate_minutes=null"],
        ["trainer.first_evaluation_minutes=null"],
        [f"resume={run}"],
    ):
        assert composed(*given).problems == []
