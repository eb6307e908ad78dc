"""Steps with a non-finite gradient: skipped and counted, and after too many in a row the run stops."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn

from configs.errors import UserError
from data.batches.windows import WindowStream
from tests.stand_in import DEVICE, stand_in
from tests.training.tiny_trainer import curve, go_on, pairs, resumed, train, trainer
from training.config import OptimConfig
from training.hardware.device import Hardware
from training.optimizer.optimizer import Optimizer
from training.optimizer.weights import Weights
from training.progress import Interval, Progress
from training.trainer import Trainer


def spoil(each: Trainer, *steps: int, value: float = math.inf) -> None:
    """Make the output of a block non-finite in the given steps (the first step is 1)."""

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output * value if module.training and each.progress.step + 1 in steps else output

    each.model.decoder[0].register_forward_hook(hook)  # type: ignore[union-attr,operator]


def bits(each: Trainer) -> list[Tensor]:
    """Return copies of the weights, their average and the optimiser's state."""
    average = [] if each.weights.flat_average is None else [each.weights.flat_average]
    states = [t for optimizer in each.optimizer.state_dict() for state in optimizer for t in state.values()]
    return [tensor.clone() for tensor in (each.weights.flat_masters, *average, *states)]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_step_with_a_bad_gradient_changes_nothing_and_the_next_ones_train(value: float) -> None:
    """Guards against one bad batch that turns all weights, moments or the average into NaN."""
    each = trainer(pairs(), ema=0.9)
    spoil(each, 3, value=value)
    for number in range(1, 6):
        before = bits(each)
        each.step()
        same = [torch.equal(a, b) for a, b in zip(before, bits(each), strict=True)]
        assert all(same) if number == 3 else not any(same)
        assert all(bool(tensor.isfinite().all()) for tensor in bits(each))
    assert (each.progress.step, each.progress.skipped_steps, each.progress.skipped_in_a_row) == (5, 1, 0)
    assert each.since_log.mean_loss is not None
    assert 0 < each.since_log.mean_loss < 10


def test_skipped_steps_are_counted_in_the_log_the_curves_and_the_checkpoint(tmp_path: Path) -> None:
    """Guards against steps that are dropped in silence, and a loss of the log line spoilt by a skipped step."""
    folder = tmp_path / "run"
    each = trainer(pairs(), steps=8, evaluate_every=4, log_every=2)
    spoil(each, 3, 5, 6)
    train(each, folder)
    log = (folder / "log.txt").read_text(encoding="utf-8")
    assert "warning: step 3 is skipped: loss nan, gradient norm nan" in log
    lines = [line for line in log.splitlines() if line.startswith("step ")]
    assert ["skipped" in line for line in lines] == [False, True, True, True]
    assert "loss - |" in lines[2], "both steps of this line were skipped"
    assert "skipped 3" in lines[3]
    events = EventAccumulator(str(folder)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/skipped_steps")] == [(4, 1.0), (6, 3.0), (8, 3.0)]
    assert [e.step for e in events.Scalars("loss")] == [2, 4, 8]
    assert all(math.isfinite(line["train/loss"]) for line in curve(folder / "metrics.jsonl"))
    again = resumed(folder, steps=9, evaluate_every=4)
    assert (again.progress.skipped_steps, again.progress.skipped_in_a_row) == (3, 0)
    go_on(again, folder, lambda log: lambda step, record: 1.0)


def test_a_run_without_skipped_steps_has_no_curve_of_them(tmp_path: Path) -> None:
    """Guards against a chart of zeros in every run."""
    train(trainer(pairs()), tmp_path / "run")
    assert "train/skipped_steps" not in EventAccumulator(str(tmp_path / "run")).Reload().Tags()["scalars"]
    assert "skipped" not in (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")


def test_too_many_in_a_row_stop_the_run_with_the_batch_and_the_last_good_checkpoint(tmp_path: Path) -> None:
    """Guards against a run that skips every step until its budget ends, and against a cause that nobody can find."""
    folder = tmp_path / "run"
    batches = pairs()
    each = trainer(batches, steps=50, evaluate_every=2, skip_limit=3, accumulate=2)
    spoil(each, 2, 5, 6, 7)
    with pytest.raises(UserError) as raised:
        train(each, folder)
    (message,) = raised.value.args
    assert message.startswith("3 steps in a row, up to step 7, had a gradient that is not finite")
    assert f"the batch of step 5 is in {folder / 'bad_batch.json'}" in message
    assert "the checkpoint of step 6 is kept" in message
    bad = json.loads((folder / "bad_batch.json").read_text(encoding="utf-8"))
    assert (bad["step"], bad["gradient_norm"]) == (5, "nan")
    assert [one["inputs"] for one in bad["batches"]] == [batch.inputs.tolist() for batch in batches[:2]]
    assert [one["source"] for one in bad["batches"]] == [
        batch.source.tolist() for batch in batches[:2] if batch.source is not None
    ]


def test_a_count_in_a_row_survives_a_resume(tmp_path: Path) -> None:
    """Guards against a run that is preempted often and never reaches the limit."""
    folder = tmp_path / "run"
    first = trainer(pairs(), steps=4, evaluate_every=4, skip_limit=3)
    spoil(first, 3, 4)
    train(first, folder)
    again = resumed(folder, steps=9, evaluate_every=4, skip_limit=3)
    spoil(again, 5)
    with pytest.raises(UserError, match=r"3 steps in a row, up to step 5, .*the batch of step 5 is in"):
        go_on(again, folder, lambda log: lambda step, record: 1.0)


@pytest.mark.parametrize(("kind", "fused"), [("adamw", True), ("adamw", False), ("muon", True), ("scion", True)])
def test_a_decision_on_the_device_masks_the_update_and_changes_no_bit_otherwise(kind: str, fused: bool) -> None:
    """Guards a GPU, where the decision is not read: a mask that leaks NaN, moves a moment, or rounds differently."""
    torch.manual_seed(0)
    parts = {"embedding": nn.Embedding(9, 8), "inner": nn.Linear(8, 24), "norm": nn.LayerNorm(24)}
    model = nn.ModuleDict(parts | {"head": nn.Linear(24, 8)})
    weights = Weights(model, torch.float32, ema=0.9)
    optimizer = Optimizer(OptimConfig(kind=kind), weights)
    optimizer.optimizers[0].fused = fused  # type: ignore[attr-defined]
    assert weights.flat_average is not None
    states = [tensor for each in optimizer.optimizers for state in each.state for tensor in state.values()]
    kept = [weights.flat_masters, weights.flat_average, *states]

    def step(bad: bool, on_device: bool) -> list[Tensor]:
        torch.manual_seed(7)
        weights.gradient.normal_()
        if bad:
            weights.gradient[5] = math.nan
        norm = weights.gradient_norm()
        numbers = (1.0, weights.averaging_weight())
        optimizer.update(numbers, norm, None, norm.isfinite() if on_device else None)
        return [tensor.clone() for tensor in kept]

    step(bad=False, on_device=False)
    before = [tensor.clone() for tensor in kept]
    same = [torch.equal(a, b) for a, b in zip(before, step(bad=True, on_device=True), strict=True)]
    assert same == [fused or tensor.dim() > 0 for tensor in kept], "without the fused kernel the CPU counts the step"
    for tensor, old in zip(kept, before, strict=True):
        tensor.copy_(old)
    weights.updates -= 1
    masked = step(bad=False, on_device=True)
    for tensor, old in zip(kept, before, strict=True):
        tensor.copy_(old)
    weights.updates -= 1
    assert all(map(torch.equal, masked, step(bad=False, on_device=False)))


def test_an_interval_counts_only_applied_steps_whether_the_decision_is_read_or_not() -> None:
    """Guards against a mean loss over the tokens of skipped steps."""
    for applied, skipped in ((True, False), (torch.tensor(True), torch.tensor(False))):
        interval = Interval()
        interval.add(torch.tensor(math.nan), 4, 9, 1.0, skipped)
        assert interval.mean_loss is None
        interval.add(torch.tensor(10.0), 5, 9, 1.0, applied)
        assert interval.mean_loss == 2.0
        assert Interval(**interval.state_dict()).mean_loss == 2.0
        json.dumps(interval.state_dict(), allow_nan=False)


def test_a_batch_names_its_rows() -> None:
    """Guards against a bad batch that cannot be found in the data."""
    tokens = np.arange(100, dtype=np.uint16)
    batch = WindowStream(tokens, 3, 8, seed=1).next_batch().to("cpu")
    assert batch.rows is not None
    assert batch.inputs[:, 0].tolist() == tokens[batch.rows].tolist()


def test_counters_of_older_runs_have_no_skipped_steps() -> None:
    """Guards against an older checkpoint that cannot be resumed."""
    progress, old = Progress(), Progress(step=7).state_dict()
    del old["skipped_steps"], old["skipped_in_a_row"]
    progress.load_state_dict(old)
    assert (progress.step, progress.skipped_steps) == (7, 0)
    assert Interval(loss=1.0, targets=2, tokens=3, steps=1, seconds=1.0).mean_loss == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adamw", "muon", "scion"])
def test_skipped_steps_of_a_device_are_masked_and_counted_without_waiting(kind: str, tmp_path: Path) -> None:
    """Guards GPUs of all kinds against NaN weights, and against counters that are wrong at a checkpoint."""
    with stand_in() as stood_in:
        hardware = Hardware(DEVICE, torch.float32, None, "stand-in")
        each = trainer(pairs(), hardware, tie_embeddings=kind != "scion", ema=0.9, steps=6, evaluate_every=3)
        each.optimizer = Optimizer(OptimConfig(kind=kind, lr=1e-2), each.weights)
        spoil(each, 2, 5)
        before = stood_in.reads
        each.step()
        each.step()
        assert stood_in.reads == before
        assert bool(each.weights.flat_masters.isfinite().all())
        train(each, tmp_path / "run")
        assert bool(each.weights.flat_masters.isfinite().all())
    assert (each.progress.skipped_steps, each.progress.step) == (2, 6)
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert "step 2 is skipped" in log
    assert "step 5 is skipped" in log
