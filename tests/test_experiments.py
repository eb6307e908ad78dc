"""Every recipe in configs/experiment: composes, passes its checks and trains."""

import json
import re
from pathlib import Path

import pytest

from configs.compose import compose_config, normalise
from tests.conftest import ROOT
from train import train
from training.config import TrainConfig
from training.new_or_resumed_run import compose_run, to_dataclass

EXPERIMENTS = sorted(path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml"))
DEBUG = sorted(path.stem for path in (ROOT / "configs" / "debug").glob("*.yaml"))
GROUPS = [
    (path.parent.name, path.stem)
    for path in sorted((ROOT / "configs").glob("*/*.yaml"))
    if path.parent.name not in ("experiment", "debug")
]

SHRUNK = [
    "model.layers=1",
    "model.encoder_layers=null",
    "model.heads=2",
    "model.kv_heads=null",
    "model.width=32",
    "model.context=32",
    "trainer.steps=2",
    "trainer.minutes=null",
    "trainer.evaluate_every=2",
    "trainer.evaluate_minutes=null",
    "trainer.batch_size=2",
    "trainer.accumulate=1",
    "trainer.log_every=1",
    "trainer.samples=1",
    "trainer.evaluate_sentences=4",
    "trainer.compile=off",
    "data.batch_tokens=256",
    "data.sentences=400",
    "data.stories=200",
    "attention.examples=1",
]


@pytest.fixture
def corpora(tmp_path: Path, book: Path) -> dict[str, str]:
    """Write small files in the formats that the recipes expect."""
    adjectives = {"red": "赤い", "old": "古い", "big": "大きい"}
    animals = {"fox": "狐", "cat": "猫", "cow": "牛", "hen": "鶏"}
    pairs = [(f"the {a} {b} runs .", f"{adjectives[a]} {animals[b]} が 走る 。") for a in adjectives for b in animals]
    many = [(f"{a} {n}", f"{n} {b}") for n in range(20) for a, b in pairs]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(f"{split} {a}\t{b}\n" for a, b in many), encoding="utf-8")
        (tmp_path / "aligned").mkdir(exist_ok=True)
        (tmp_path / "aligned" / f"{split}.en").write_text("".join(f"{split} {a}\n" for a, _ in many), encoding="utf-8")
        (tmp_path / "aligned" / f"{split}.ja").write_text("".join(f"{b}\n" for _, b in many), encoding="utf-8")
    (tmp_path / "valid.tsv").write_bytes((tmp_path / "dev.tsv").read_bytes())
    (tmp_path / "dev.tsv").unlink()
    (tmp_path / "tables").mkdir()
    for path in tmp_path.glob("*.tsv"):
        path.rename(tmp_path / "tables" / path.name)
    return {"text": str(book), "tatoeba": str(tmp_path / "tables"), "small_parallel_enja": str(tmp_path / "aligned")}


def compose_and_train(*arguments: str) -> Path:
    settings = [normalise(argument) for argument in arguments]
    assert compose_run(settings).problems == []
    config, _ = compose_config("train", TrainConfig, settings)
    assert config is not None
    before = set(Path("runs").glob("*"))
    train(to_dataclass(config, settings))
    (run,) = set(Path("runs").glob("*")) - before
    return run


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_composes_and_trains_two_steps(
    experiment: str, corpora: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a recipe that breaks unnoticed because nobody runs it."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "configs" / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8")
    data = [] if "data: primer" in text else [f"data.path={corpora.get(experiment, corpora['text'])}"]
    pieces = "null" if "vocab_size: null" in text else 800 if "data: primer" in text else 60
    vocabulary = (
        [] if "tokenizer: char" in text else [f"tokenizer.vocab_size={pieces}", "tokenizer.byte_fallback=false"]
    )
    source = ["data=text"] if experiment == "gpt2_124m" else []
    run = compose_and_train(f"+experiment={experiment}", *source, *data, *vocabulary, *SHRUNK)
    assert run.name == experiment
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[0]["step"] == 2
    assert 0 < lines[0]["val/loss"] < 20
    assert (run / "attention" / "step_00000002.safetensors").exists()
    if experiment == "demo_gpt":  # the reduced context is too short for any story
        assert "novel: no pronoun scored, no story fits model.context=32" in (run / "log.txt").read_text(
            encoding="utf-8"
        )


@pytest.mark.slow
@pytest.mark.parametrize("task", ["gpt", "translate"])
@pytest.mark.parametrize("preset", DEBUG)
def test_every_debug_preset_trains(preset: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a debug preset that is itself broken."""
    monkeypatch.chdir(tmp_path)
    small = [s for s in SHRUNK if not s.startswith(("trainer.steps", "trainer.evaluate_every", "trainer.minutes"))]
    more = ["trainer.steps=2", "trainer.evaluate_every=2"] if preset == "nan" else []
    run = compose_and_train(
        f"+debug={preset}", f"task={task}", *small, "tokenizer.vocab_size=800", f"name={preset}", "optim.lr=1e-2", *more
    )
    if preset == "overfit":
        last = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        assert last["train/loss"] < 2.5
    if preset == "profile":
        assert (run / "trace.json").exists()
        assert "Self CPU" in (run / "log.txt").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("group", "choice"), GROUPS)
def test_every_choice_of_every_group_composes(group: str, choice: str) -> None:
    """Guards against a YAML key that no dataclass has."""
    config, result = compose_config("train", TrainConfig, [f"{group}={choice}"])
    assert result == []
    assert config is not None


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_says_how_to_run_it(experiment: str) -> None:
    """Guards against a recipe without its command, data, duration or expected result."""
    text = (ROOT / "configs" / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8")
    assert f"python train.py +experiment={experiment}" in text
    assert all(f"# {word}: " in text for word in ("Data", "Takes", "Reaches"))
    assert "@@" not in text


@pytest.mark.slow
def test_a_run_on_the_stories_tells_which_pronouns_it_understands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a run on the stories whose pronoun accuracy is not reported alongside its baselines, or not
    stored."""
    monkeypatch.chdir(tmp_path)
    run = compose_and_train("+experiment=demo_gpt", *SHRUNK, "model.context=96", "data.stories=400")
    figures = json.loads((run / "test.json").read_text())
    for split in ("test", "novel"):
        assert 0 <= figures[f"{split}/pronouns"] <= 100
        assert 0 <= figures[f"{split}/pronouns_contested"] <= 100
        report = (run / f"pronouns.{split}.txt").read_text(encoding="utf-8")
        assert report.startswith(f"| {split}: right antecedents | only meaning decides (")
        assert 0 <= figures[f"{split}/answers"] <= 100
        answers = (run / f"answers.{split}.txt").read_text(encoding="utf-8")
        assert answers.startswith(f"| {split}: right answers")
        for name in ("this model", "nearest noun", "first noun", "most frequent noun", "last subject", "any candidate"):
            assert re.search(rf"^\| {name} +\| +[\d.]+ %", report, re.MULTILINE)
            assert re.search(rf"^\| {name} +\| +[\d.]+ %", answers, re.MULTILINE)
    evaluated = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert 0 <= evaluated["val/answers"] <= 100
