"""Evaluations: optional parts that fail, and what is written to the log, files and TensorBoard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_maps.files import store
from configs.errors import UserError
from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from model.config import ModelConfig
from training.config import TrainConfig, TrainerConfig
from training.evaluation.evaluators import Evaluator, evaluator_for
from training.run_folder import test_results
from training.run_folder.loaded_run import build_model
from training.run_folder.log import RunLog

Make = Callable[..., Evaluator]


@pytest.fixture
def make(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make("gpt", importance=True)`: return the evaluator of a run in `tmp_path` with a newly initialised tiny
    model."""
    cache = str(tmp_path_factory.getbasetemp() / "evaluators_cache")

    def build(task: str, **attention: object) -> Evaluator:
        config = TrainConfig(
            task=task,
            data=DataConfig(sentences=600, stories=300, cache=cache),
            tokenizer=TokenizerConfig(kind="bpe", vocab_size=700),
            model=ModelConfig(layers=2, heads=2, width=32, context=200),
            trainer=TrainerConfig(samples=1, evaluate_sentences=4, beam_size=1),
        )
        config.attention = replace(config.attention, **{"examples": 1, "scored": 8, "image": False, **attention})
        prepared = prepare(task, config.data, config.tokenizer, config.model.context, 1)
        torch.manual_seed(1)
        model = build_model(config, prepared.tokenizers).eval()
        return evaluator_for(config, prepared, model, tmp_path, RunLog(tmp_path, 0))

    return build


def test_optional_parts_of_an_evaluation_may_fail(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a run that ends because its maps cannot be written, and a missing validation loss without an
    error."""
    evaluator = make("gpt")
    folder = store.path(tmp_path, 1).parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file where the folder of the maps should be", encoding="utf-8")
    record: dict = {}
    loss = evaluator.evaluate(1, record)
    evaluator.log.close()
    assert record["val/loss"] == loss
    points = EventAccumulator(str(tmp_path / "val")).Reload().Scalars("loss")
    assert [point.value for point in points] == pytest.approx([loss])
    shown = capsys.readouterr().out
    assert "warning: attention maps skipped after an error (" in shown
    assert "Traceback" not in shown
    assert "Traceback" in (tmp_path / "log.txt").read_text(encoding="utf-8")
    with torch.no_grad():
        next(evaluator.model.parameters()).fill_(torch.nan)
    with pytest.raises(UserError, match="validation loss became nan"):
        evaluator.evaluate(2, {})


@pytest.mark.slow
def test_tabs_and_line_breaks_are_escaped_in_translation_table(tmp_path: Path) -> None:
    """Guards against rows of two or four cells in `translations.test.tsv`."""
    rows = [{"source": f"a\tb {n}", "target": f"c\nd\\{n}"} for n in range(40)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = DataConfig("pairs", str(path), test_fraction=0.1, cache=str(tmp_path / "cache"))
    config = TrainConfig("translate", data=data, model=ModelConfig(layers=1, heads=2, width=32, context=32))
    prepared = prepare("translate", config.data, config.tokenizer, config.model.context, 1)
    model = build_model(config, prepared.tokenizers).eval()
    log = RunLog(tmp_path, 0)
    evaluator_for(config, prepared, model, tmp_path, log).test_split("test", 1)
    log.close()
    header, *lines = (tmp_path / "translations.test.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    assert header == "source\treference\thypothesis"
    assert [line.split("\t")[:2] for line in lines] == [[f"a\\tb {n}", f"c\\nd\\\\{n}"] for n in range(36, 40)]
    assert {line.count("\t") for line in lines} == {2}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_long_tables_go_to_files(task: str, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a hundred lines of tables at the end of a run, which hide the results."""
    evaluator = make(task, importance=True)
    evaluator.test(1)
    evaluator.log.close()
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= 20
    assert re.search(r"^test: .* [\d.]+ % \(chance [\d.]+ %\); tables: .*heads\.test\.txt$", shown, re.MULTILINE)
    assert re.search(r"most important head: \w+ layer \d, head \d, [+-]0\.\d+ nats per token without it", shown)
    tables = {"heads.test.txt": "each head", "heads.novel.txt": "chosen on validation"}
    tables |= {"heads.importance.txt": "nats lost without the head"}
    if task == "gpt":
        tables |= {f"pronouns.{split}.txt": "only meaning decides" for split in ("test", "novel")}
        assert (
            len(re.findall(r"^test: right antecedents of pronouns: .*pronouns\.test\.txt$", shown, re.MULTILINE)) == 1
        )
    for name, text in tables.items():
        assert text in (tmp_path / name).read_text(encoding="utf-8")
        assert f"| {text}" not in shown


@pytest.mark.parametrize(("task", "headline"), [("gpt", "loss"), ("translate", "chrf")])
def test_a_test_is_one_table_and_one_scalar_for_each_split(
    task: str, headline: str, make: Make, tmp_path: Path
) -> None:
    """Guards against a dozen charts with one point each before the training curves, and an HParams tab without test
    metrics."""
    evaluator = make(task)
    evaluator.test(7)
    evaluator.log.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert sorted(events.Tags()["scalars"]) == [f"test/{headline}", f"test/novel_{headline}"]
    (results,) = events.Tensors("results/text_summary")
    figures = json.loads((tmp_path / "test.json").read_text(encoding="utf-8"))
    text = results.tensor_proto.string_val[0].decode()
    assert results.step == 7
    for name in {key.partition("/")[2] for key in figures if "/" in key}:
        assert f"| {name} " in text
    assert f"{figures[f'novel/{headline}']:.4f}" in text


def test_a_test_is_repeated_for_what_a_resume_asks_in_addition(make: Make, tmp_path: Path) -> None:
    """Guards against a finished run whose config says that the importance of heads was measured, and no such table."""
    evaluator = make("gpt")
    evaluator.test(7)
    evaluator.log.close()
    assert test_results.tested_step(tmp_path, evaluator.test_settings) == 7
    evaluator.config.attention = replace(evaluator.config.attention, importance=True)
    assert test_results.tested_step(tmp_path, evaluator.test_settings) is None


def test_a_part_of_the_test_that_fails_costs_no_score(make: Make, tmp_path: Path) -> None:
    """Guards test.json and the end of the run against maps that cannot be written."""
    evaluator = make("gpt", importance=True)
    folder = store.path(tmp_path, 1).parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file where the folder of the maps should be", encoding="utf-8")
    evaluator.test(1)
    evaluator.log.close()
    assert json.loads((tmp_path / "test.json").read_text(encoding="utf-8"))["test/loss"] > 0
    assert "warning: importance of heads skipped after an error (" in (tmp_path / "log.txt").read_text(encoding="utf-8")
