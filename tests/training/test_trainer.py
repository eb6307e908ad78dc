"""The training loop: exact accumulation, loss, patience, curves."""

import json
import re
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from data.batches.batch import IGNORED, Batch
from model.config import ModelConfig
from model.gpt import GPT
from tests.training.tiny_trainer import pairs, together, train, trainer
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.loading import checkpoint_path
from training.counters import Interval
from training.evaluation.held_out_loss import held_out_loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_four_micro_batches_of_one_equal_one_of_four_with_padding(smoothing: float) -> None:
    """Guards against a mean per micro-batch, which gives tokens of short rows more weight (several libraries had
    this bug for years)."""
    batches = pairs()
    four = trainer(batches, accumulate=4, label_smoothing=smoothing)
    one = trainer([together(batches)], accumulate=1, label_smoothing=smoothing)
    for each in (four, one):
        for _ in range(3):
            each.step()
    assert four.since_log.targets == one.since_log.targets == 3 * 24
    assert four.since_log.mean_loss == pytest.approx(one.since_log.mean_loss, rel=1e-5)
    for a, b in zip(four.model.parameters(), one.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_tokens_per_second_count_real_tokens_and_only_training_time() -> None:
    """Guards against padding counted as speed, evaluation counted as training time, and a rate divided by a time
    stamp."""
    interval = Interval()
    interval.add(torch.tensor(10.0), 5, 12, 0.5)
    interval.add(torch.tensor(20.0), 5, 12, 1.5)
    assert interval.tokens_per_second == 12.0
    assert interval.mean_loss == 3.0
    padded = trainer([together(pairs())], accumulate=1)
    padded.step()
    assert padded.progress.tokens == sum(batch.target_tokens + batch.source_tokens for batch in pairs())


def test_patience_stops_after_that_many_evaluations_without_a_better_loss(tmp_path: Path) -> None:
    """Guards against early stopping that is one evaluation off, or that counts every evaluation."""
    losses = iter([3.0, 2.0, 2.5, 2.2, 2.1, 1.0])
    patient = trainer(pairs(), steps=100, evaluate_every=1, patience=3)
    train(patient, tmp_path / "patient", lambda step, record: next(losses))
    assert patient.progress.step == 5
    assert patient.progress.best_loss == 2.0
    assert (tmp_path / "patient" / "checkpoints" / "best").resolve().name == "step-00000002"


def test_full_pass_loss_counts_every_token_once_whatever_the_batches() -> None:
    """Guards against a mean of batch means, which depends on the batch size."""
    torch.manual_seed(0)
    model = GPT(ModelConfig(layers=1, heads=2, width=16, context=8), 20).eval()
    tokens = torch.randint(0, 20, (5, 9))
    targets = tokens[:, 1:].clone()
    targets[4, 3:] = IGNORED
    rows = [Batch(tokens[i : i + 1, :-1], targets[i : i + 1]) for i in range(5)]
    one = held_out_loss(model, rows, 100)
    two = held_out_loss(model, [Batch(tokens[:3, :-1], targets[:3]), Batch(tokens[3:, :-1], targets[3:])], 100)
    assert one.tokens == two.tokens == 35
    assert one.per_token == pytest.approx(two.per_token, rel=1e-6)
    with torch.no_grad():
        by_hand = sum(
            -float(model(row.inputs).log_softmax(-1)[0, t, row.targets[0, t]])
            for row in rows
            for t in range(8)
            if row.targets[0, t] >= 0
        )
    assert one.nats == pytest.approx(by_hand, rel=1e-5)
    assert one.bits_per_byte == pytest.approx(by_hand / 0.693147 / 100, rel=1e-5)


def test_curves_reach_tensorboard(tmp_path: Path) -> None:
    """Guards against scalars written under other names, or lost in a buffer."""
    train(trainer(pairs()), tmp_path / "curves")
    events = EventAccumulator(str(tmp_path / "curves")).Reload()
    tags = events.Tags()["scalars"]
    assert {"loss", "train/learning_rate", "train/gradient_norm", "speed/tokens_per_second"} <= set(tags)
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5]
    lines = [
        json.loads(line) for line in (tmp_path / "curves" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [line["step"] for line in lines] == [5]
    assert {"step", "tokens", "seconds", "train/loss", "tokens_per_second"} <= set(lines[0])


def test_delayed_log_lines_are_flushed_before_evaluation(tmp_path: Path) -> None:
    """Guards a GPU's log, whose values arrive during the next step, against a lost last line and values of another
    step."""
    told: list[list[int]] = []

    def steps_told() -> list[int]:
        return [int(n) for n in re.findall(r"^step (\d+)", (tmp_path / "late" / "log.txt").read_text(), re.MULTILINE)]

    def evaluate(step: int, record: dict) -> float:
        told.append(steps_told())
        return 1.0

    on_time, late = (trainer(pairs(), steps=7, evaluate_every=3) for _ in range(2))
    train(on_time, tmp_path / "on time")
    late.queue.immediate, late.queue.asynchronous = False, True
    train(late, tmp_path / "late", evaluate)
    assert told == [[1, 2, 3], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]]
    values = [
        [(event.step, event.value) for event in EventAccumulator(str(tmp_path / name)).Reload().Scalars(tag)]
        for tag in ("loss", "train/gradient_norm")
        for name in ("on time", "late")
    ]
    assert values[0] == values[1]
    assert values[2] == values[3]


def test_patience_is_counted_over_a_resume(tmp_path: Path) -> None:
    """Guards against a full patience after every restart."""
    folder = tmp_path / "first"
    losses = iter([1.0, 2.0])
    train(trainer(pairs(), steps=2, evaluate_every=1, patience=3), folder, lambda step, record: next(losses))
    again = trainer(pairs(), steps=100, evaluate_every=1, patience=3)
    checkpoint = checkpoint_path(folder, "last")
    again.restore(load_weights(checkpoint), load_state(checkpoint))
    train(again, tmp_path / "second", lambda step, record: 2.0)
    assert again.progress.step == 4
    assert "patience" in str(again.budget.end_of_training())
