"""Attention maps recorded at evaluations, on the built-in corpus with an untrained model."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_maps.files import store
from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from interpretability.ablation import replace_head_outputs
from model.config import ModelConfig
from training.config import TrainConfig
from training.evaluation.evaluators import evaluator_for
from training.evaluation.head_importance import example_batch, mean_loss
from training.evaluation.maps import AttentionRecorder, is_chosen
from training.run_folder.loaded_run import build_model
from training.run_folder.log import RunLog

Make = Callable[..., AttentionRecorder]


@pytest.fixture
def make(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make("translate", examples=1, …)`: return a recorder of a new tiny model with these attention settings."""
    cache = str(tmp_path_factory.getbasetemp() / "recorder_cache")

    def build(task: str, **attention: object) -> AttentionRecorder:
        config = TrainConfig(
            task=task,
            data=DataConfig(sentences=600, stories=300, cache=cache),
            tokenizer=TokenizerConfig(kind="bpe", vocab_size=700),
            model=ModelConfig(layers=2, heads=2, width=32, context=200),
        )
        config.attention = replace(config.attention, **{"examples": 1, "scored": 8, **attention})
        prepared = prepare(task, config.data, config.tokenizer, config.model.context, 1)
        torch.manual_seed(1)
        model = build_model(config, prepared.tokenizers).eval()
        return AttentionRecorder(config, prepared, model, tmp_path, RunLog(tmp_path, 0))

    return build


def test_recordings_of_a_training_say_what_to_cite(make: Make, tmp_path: Path) -> None:
    """Guards against maps that nobody can attribute once they have left their run, and recordings that grow by it."""
    recorder = make("gpt")
    recorder.config = replace(recorder.config, experiment="demo_gpt", licence="CC BY 4.0")
    for step in (0, 3):
        recorder.record_maps(step)
        recording = store.load(store.path(tmp_path, step))
        about = dict(recording.about)
        assert f"{datetime.now(UTC).date()}" >= about.pop("date") >= "2026"
        model = about.pop("model")
        assert model.startswith("A language model (GPT) of 2 layers, 2 heads and width 32")
        assert model.endswith(f"step {step}.")
        assert about == {
            "title": tmp_path.name,
            "data": "The built-in corpus of Chumoku: 300 synthetic stories in English, generated from a grammar.",
            "command": "python train.py +experiment=demo_gpt",
            "licence": "CC BY 4.0",
        }
        silent = store.save(replace(recording, about={}), tmp_path / "silent")
        assert store.path(tmp_path, step).stat().st_size - silent.stat().st_size < 1000


def events(run: Path) -> EventAccumulator:
    """Load the event files of a run as TensorBoard does."""
    return EventAccumulator(str(run)).Reload()


def test_a_translation_run_keeps_maps_scores_curves_and_a_picture(make: Make, tmp_path: Path) -> None:
    """Guards what the tab, the charts and the Images tab receive at every evaluation."""
    recorder = make("translate", probes=["I run. ||| 私は走る。", "I run.|||走る。", "I run."])
    recorder.record(7)
    recorder.log.close()
    recorded = store.load(store.path(tmp_path, 7))
    assert [sample.name for sample in recorded.samples] == ["probe 1", "probe 2", "probe 3", "valid 1"]
    tokenizer = recorder.prepared.tokenizers[-1]
    assert [tokenizer.decode(sample.predicts.ids) for sample in recorded.samples[:2]] == ["私は走る。", "走る。"]
    assert tokenizer.decode((recorded.samples[2].source or recorded.samples[2].reads).ids) == "I run."
    assert recorded.samples[3].links
    assert len(recorded.measures["alignment_error"]["cross"]) == 2
    assert {score.name for score in recorded.scores} >= {"chance", "along the diagonal", "mean of layer 1, grown"}
    assert recorded.deviation < 1e-4
    accumulated = events(tmp_path)
    assert "val_attention/cross/1/alignment_error" in accumulated.Tags()["scalars"]
    assert accumulated.Tags()["images"] == ["maps"]


def test_between_evaluations_only_maps_and_cheap_measures_are_recorded(make: Make, tmp_path: Path) -> None:
    """Guards the time of the many recordings between evaluations: neither scores on more examples nor a picture."""
    recorder = make("gpt", examples=2)
    recorder.record_maps(3)
    recorder.record(4)
    recorder.log.close()
    between, evaluated = (store.load(store.path(tmp_path, step)) for step in (3, 4))
    assert not between.scores
    assert evaluated.scores
    assert set(evaluated.measures) - set(between.measures) == {"antecedent", "antecedent_agreeing", "importance"}
    assert set(between.measures) >= {"induction", "duplicate", "repeat_previous", "copying"}
    assert (between.maps(1, "decoder", 1) == evaluated.maps(1, "decoder", 1)).all()
    assert [point.step for point in events(tmp_path).Scalars("val_attention/decoder/0/entropy")] == [4]
    make("gpt", examples=0).record_maps(5)
    assert list(store.steps(tmp_path)) == [3, 4]


def test_the_importance_of_heads_is_measured_as_often_as_time_allows(make: Make, tmp_path: Path) -> None:
    """Guards the time of evaluations with many heads: the first is measured, and others when they cost little."""
    recorder = make("gpt")
    recorder.record(1)
    assert len(recorder.importance_seconds) == 1
    recorder.importance_seconds, recorder.started = [1.0], time.perf_counter()
    recorder.record(2)
    recorder.started -= 1e6
    recorder.record(3)
    recorder.log.close()
    result = {step: "importance" in store.load(path).measures for step, path in store.steps(tmp_path).items()}
    assert result == {1: True, 2: False, 3: True}


def test_recordings_wait_for_the_disk_at_evaluations_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the time of a recording, of which the disk takes a fifth, and recordings that a power failure empties
    although a run resumes from a checkpoint after them; one that was thinned out meanwhile is no error."""
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    recorder = make("gpt", keep=2)
    for step in (1, 2, 3):
        recorder.record_maps(step)
    assert not flushed
    recorder.record(4)
    assert len(flushed) == 4, "those of steps 1 and 4 are left, and their two folders"
    assert not recorder.written


def test_a_probe_may_name_antecedents(make: Make, tmp_path: Path) -> None:
    """Guards the probes of the demos, in whose pronouns a newcomer is most interested, and the nouns that compete."""
    recorder = make("gpt", examples=0)
    (row,) = recorder.gold("valid").select([0])
    other = next(row["text"][start:end] for start, end, _, pronoun in row["mentions"] if not pronoun)
    rival = other.split()[-1]
    recorder = make("gpt", probes=[f"Kay met {rival}. She{{Kay}} ran. Kay slept.", "No marks."], examples=0)
    recorder.record_maps(1)
    sample, unmarked = store.load(store.path(tmp_path, 1)).samples
    assert unmarked.antecedents is None
    assert sample.antecedents is not None

    def text(start: int, stop: int) -> str:
        return "".join(sample.reads.pieces[start:stop]).strip("▁")

    ((start, stop, first, last),) = sample.antecedents.pairs
    assert (text(start, stop), text(first, last)) == ("She", "Kay")
    mentions = [(text(start, stop), *rest) for start, stop, *rest in sample.antecedents.mentions]
    assert mentions == [("Kay", 0, False), (rival, 1, False), ("She", 0, True), ("Kay", 0, False)]
    recorder = make("translate", probes=["Emi ran because she{Emi} was late."], examples=0)
    (example,) = recorder.examples()
    assert example.own
    assert example.antecedents is not None
    assert example.antecedents.side == "source"
    assert len(example.antecedents.pairs) == 1


def test_loss_and_importance_are_those_of_the_given_texts(make: Make, tmp_path: Path) -> None:
    """Guards against examples that the model translated itself: their loss is low at every step."""
    recorder = make("translate", probes=["I run. ||| 私は走る。", "I run."], examples=2)
    recorder.record(7)
    recorded = store.load(store.path(tmp_path, 7))
    losses = [loss for number in (0, 2, 3) for loss in recorded.samples[number].losses]
    assert recorded.loss == pytest.approx(sum(losses) / len(losses), abs=1e-4)
    batch = example_batch(recorder.examples(), 128)
    assert batch is not None
    assert batch.inputs.shape[0] == 3
    assert mean_loss(recorder.model, [batch]) == pytest.approx(recorded.loss, abs=1e-4)
    with replace_head_outputs(recorder.model, {("cross", 1, 1): 0.0}):
        without = mean_loss(recorder.model, [batch])
    assert recorded.measures["importance"]["cross"][1][1] == pytest.approx(without - recorded.loss, abs=1e-4)


def test_scores_of_the_last_evaluation_label_the_heads_until_the_next(make: Make, tmp_path: Path) -> None:
    """Guards the bands of the story view against labels that vanish between evaluations."""
    recorder = make("gpt")
    recorder.gold_measures = {"antecedent": {"decoder": [[90.0, 10.0], [10.0, 10.0]]}}
    recorder.record_maps(3)
    recorded = store.load(store.path(tmp_path, 3))
    assert recorded.labels["decoder"][0][0] == "coreference"
    assert "antecedent" not in recorded.measures
    recorder.record(4)
    assert (
        recorder.gold_measures["antecedent"]["decoder"]
        == store.load(store.path(tmp_path, 4)).measures["antecedent"]["decoder"]
    )


def test_settings_switch_parts_off(make: Make, tmp_path: Path) -> None:
    """Guards `examples=0`, `scored=0` and `image=false`: less is saved, and nothing if nothing is left to save."""
    recorder = make("gpt", examples=0, image=False)
    recorder.record(1)
    assert not store.load(store.path(tmp_path, 1)).samples
    assert store.load(store.path(tmp_path, 1)).scores
    make("gpt", examples=0, scored=0).record(2)
    assert list(store.steps(tmp_path)) == [1]
    unscored = make("gpt", scored=0, image=False)
    unscored.record(3)
    assert store.load(store.path(tmp_path, 3)).scores == ()
    assert unscored.test("test", 3) == {}
    recorder.log.close()
    assert "images" not in events(tmp_path).Tags() or not events(tmp_path).Tags()["images"]


def test_old_steps_are_thinned_to_the_number_kept(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a disk filled by a long run, and against steps that are deleted without a word."""
    recorder = make("gpt", keep=3, scored=0)
    for step in range(0, 60, 10):
        recorder.record(step)
    assert len(store.steps(tmp_path)) == 3
    assert {0, 50} < set(store.steps(tmp_path))
    assert (
        capsys.readouterr().out.count("note: more than 3 steps have attention maps: from now on some are deleted") == 1
    )
    recorder.forget_after(20)
    assert max(store.steps(tmp_path)) <= 20


def test_heads_are_chosen_on_validation_and_reported_on_test(make: Make) -> None:
    """Guards against selecting the best head on the very split that is reported."""
    recorder = make("gpt")
    chosen = recorder.head_scores("valid")
    assert chosen is not None
    worst = replace(chosen, scores=[replace(s, value=-s.value) if s.kind else s for s in chosen.scores])
    recorder.__dict__["chosen"] = worst  # what the property remembers
    result = recorder.test("test", 1)
    again = recorder.head_scores("test", chosen=worst)
    assert again is not None
    assert result == {score.measure: again.named(score.measure, score.name).value for score in worst.best()}
    assert set(result) == {"antecedent", "antecedent_agreeing"}
    freely = recorder.head_scores("test")
    assert freely is not None
    assert [s.value for s in freely.scores] != [s.value for s in again.scores]


def test_scores_are_counted_on_as_many_rows_as_asked_for(make: Make) -> None:
    """Guards the cost of an evaluation."""
    recorder = make("translate")
    counts = [recorder.head_scores("valid", count) for count in (3, 5)]
    assert [scores.count for scores in counts if scores] == [3, 5]


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_rows_that_are_too_long_to_score_heads_are_counted_once(
    make: Make, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against scores on a part of the rows, or none, without a word."""
    recorder = make(task)
    encode = recorder.prepared.tokenizers[0].encode
    rows = recorder.prepared.rows("valid")[:5]
    sides = [rows[side] for side in (("source", "target") if task == "translate" else ("text",))]
    lengths = [1 + max(len(encode(text)) for text in row) for row in zip(*sides, strict=True)]
    recorder.model.config.context = sorted(lengths)[2]
    long = sum(length > sorted(lengths)[2] for length in lengths)
    assert long
    for _ in range(2):
        recorder.head_scores("valid", 5)
    assert capsys.readouterr().out.count(f"note: valid: heads are scored without {long} of 5 rows, ") == 1
    recorder.model.config.context = 2
    assert recorder.head_scores("valid", 5) is None
    assert "note: valid: heads are scored without all of 5 rows, " in capsys.readouterr().out


@pytest.mark.parametrize("importance", [False, True])
def test_importance_is_measured_when_asked_for_and_kept_with_the_step(
    make: Make, tmp_path: Path, importance: bool
) -> None:
    """Guards the opt-in, as it takes minutes on a large model, and that its result is saved along with the test
    scores."""
    recorder = make("gpt", importance=importance)
    evaluator = evaluator_for(recorder.config, recorder.prepared, recorder.model, tmp_path, recorder.log)
    evaluator.test(9)
    figures = json.loads((tmp_path / "test.json").read_text("utf-8"))
    assert 0 < figures["test/antecedent"] < 100
    assert (9 in store.steps(tmp_path)) == importance
    if importance:
        measures = store.load(store.path(tmp_path, 9)).measures
        assert [len(layer) for layer in measures["importance"]["decoder"]] == [2, 2]
        assert "nats lost" in (tmp_path / "heads.importance.txt").read_text("utf-8")


def test_a_run_without_recording_says_nothing_of_heads(make: Make, tmp_path: Path) -> None:
    """Guards `attention=off`: no tables, and no time spent on them."""
    recorder = make("gpt", enabled=False)
    assert recorder.test("test", 1) == {}


def test_maps_that_are_not_the_models_own_are_reported(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the warning if a kernel computes something else."""
    recorder = make("gpt", scored=0)
    recorder.record(1)
    assert not (tmp_path / "log.txt").exists()
    monkeypatch.setattr("model.recording.attention", lambda query, *_arguments, **_settings: query)
    recorder.record(2)
    assert "deviate from the fused kernel's output" in (tmp_path / "log.txt").read_text("utf-8")


def test_images_of_a_long_run_grow_with_the_logarithm_of_its_evaluations() -> None:
    """Guards against event files that consist of pictures after a week."""
    assert [number for number in range(1, 41) if is_chosen(number, 3)] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert sum(is_chosen(number, 50) for number in range(1, 1001)) == 156
    assert all(is_chosen(number, None) for number in range(1, 1001))


def test_image_schedule_counts_evaluations_across_resumes(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a run that draws all images again after every resume."""
    monkeypatch.setattr("training.evaluation.maps.CURVES", 3)
    recorder = make("gpt", images=1)
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in (2, 4, 6, 8, 10)))
    recorder.log = RunLog(tmp_path, 6, 6)
    for step in (8, 10, 12):
        recorder.record(step)
        recorder.log.metrics({"step": step})
    recorder.log.close()
    drawn = events(tmp_path)
    assert [image.step for image in drawn.Images("maps")] == [8], "the fourth evaluation, not 5 and 6"
    assert [point.step for point in drawn.Scalars("val_attention/decoder/0/entropy")] == [8, 12], "every second"


def test_a_drawn_figure_is_freed_at_once(make: Make) -> None:
    """Guards against memory that rises for many evaluations, until Python collects the cycles of matplotlib."""

    def figures() -> set[int]:
        return {id(each) for each in gc.get_objects() if type(each) is Figure}

    recorder = make("gpt", scored=0)
    before = figures()
    recorder.record(1)
    assert figures() <= before
