"""The loop: exact accumulation, budgets, evaluation, what TensorBoard gets."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from configs.errors import UserError
from data.batches.batch import IGNORED, Batch, BatchStream
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import OptimConfig, ScheduleConfig, TrainConfig, TrainerConfig
from training.evaluation.held_out import held_out_loss
from training.hardware.device import Hardware
from training.progress import Interrupted, Interval
from training.run_folder.checkpoints import checkpoint_path, checkpoint_step, load_state, load_weights
from training.run_folder.log import RunLog, truncate_metrics
from training.trainer import Evaluate, Trainer

CPU = Hardware(torch.device("cpu"), torch.float32, None, "cpu")


class Listed(BatchStream):
    """The same batches over and over."""

    def __init__(self, batches: list[Batch]) -> None:
        super().__init__(seed=0)
        self.batches = batches

    @property
    def epoch_batches(self) -> int:
        return len(self.batches)

    @property
    def epoch(self) -> float:
        return self._epoch + self._position / len(self.batches)

    def next_batch(self) -> Batch:
        batch = self.batches[self._position]
        self._epoch, self._position = divmod(self._epoch * len(self.batches) + self._position + 1, len(self.batches))
        return batch


def pairs(seed: int = 0) -> list[Batch]:
    """Four one-row batches of translation with targets of different length."""
    torch.manual_seed(seed)
    batches = []
    for length in (3, 9, 5, 7):
        targets = torch.full((1, 9), IGNORED)
        targets[0, :length] = torch.randint(4, 20, (length,))
        batches.append(Batch(torch.randint(4, 20, (1, 9)), targets, torch.randint(4, 20, (1, 6))))
    return batches


def together(batches: list[Batch]) -> Batch:
    """The same rows as one batch."""
    return Batch(
        torch.cat([b.inputs for b in batches]),
        torch.cat([b.targets for b in batches]),
        torch.cat([b.source for b in batches if b.source is not None]),
    )


def trainer(batches: list[Batch], hardware: Hardware = CPU, **settings: object) -> Trainer:
    config = TrainConfig(
        task="translate",
        trainer=TrainerConfig(**({"steps": 5, "log_every": 1, "evaluate_every": 5} | settings)),  # type: ignore[arg-type]
        schedule=ScheduleConfig(warmup=0, kind="constant"),
        optim=OptimConfig(lr=1e-2),
    )
    torch.manual_seed(1)
    model = EncoderDecoder(ModelConfig(layers=1, heads=2, width=16, context=16), 20, 20, shared=True)
    return Trainer(config, model, Listed(batches), hardware, 1.0)


def curve(path: Path) -> list[dict]:
    """metrics.jsonl without what a clock decides."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        {key: value for key, value in line.items() if key not in ("seconds", "tokens_per_second")} for line in lines
    ]


def train(each: Trainer, folder: Path, evaluate: Evaluate = lambda step, record: 1.0 / step) -> None:
    """Train in `folder` with a loss of our own choosing."""
    folder.mkdir()
    log = RunLog(folder, 0)
    try:
        each.train(folder, log, evaluate)
    finally:
        log.close()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_four_micro_batches_of_one_equal_one_of_four_with_padding(smoothing: float) -> None:
    """Guards: a mean per micro-batch, which weighs tokens of short rows more (several libraries had this bug for
    years)."""
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


def test_micro_batches_in_bf16_add_up_in_float32() -> None:
    """Guards: gradients of micro-batches that replace or forget each other, or add up in the 8 bits of bf16."""
    hardware = Hardware(torch.device("cpu"), torch.bfloat16, None, "cpu")
    batches = pairs()
    many = trainer(batches * 8, hardware, accumulate=32)
    one = trainer([together(batches)], hardware, accumulate=1)
    for each in (many, one):
        each.step()
    assert many.weights.gradient.dtype == torch.float32
    distance = (many.weights.gradient - one.weights.gradient).norm() / one.weights.gradient.norm()
    assert distance < 0.006  # 0.0037, for each micro-batch rounds by itself; added up in bf16 it would be 0.0092


def test_tokens_per_second_count_real_tokens_and_only_training_time() -> None:
    """Guards: padding counted as speed, evaluation counted as slowness, a rate that divides by a time stamp."""
    interval = Interval()
    interval.add(torch.tensor(10.0), 5, 12, 0.5)
    interval.add(torch.tensor(20.0), 5, 12, 1.5)
    assert interval.tokens_per_second == 12.0
    assert interval.mean_loss == 3.0
    assert pairs()[0].tokens == 6 + 3


def test_a_budget_of_time_ends_the_run_and_anneals_the_rate(tmp_path: Path) -> None:
    """Guards: a wall-clock budget that is ignored, spent on warming up, or at its end at the peak of the
    learning rate."""
    timed = trainer(pairs(), steps=None, minutes=0.02, evaluate_every=10**6)
    timed.config.schedule = ScheduleConfig(kind="linear", warmup=10**6)
    train(timed, tmp_path / "timed")
    rates = EventAccumulator(str(tmp_path / "timed")).Reload().Scalars("train/learning_rate")
    assert max(rate.value for rate in rates) > 0.7 * timed.config.optim.lr
    assert 1.2 <= timed.progress.seconds < 10
    assert (
        timed.optimizer.optimizers[0].param_groups[0]["lr"] < 0.2 * timed.config.optim.lr
    )  # a busy machine makes few steps
    assert timed.progress.evaluated_step == timed.progress.step
    assert timed.budget.end_of_training() == "the time is up (trainer.minutes=0.02)"
    log = (tmp_path / "timed" / "log.txt").read_text(encoding="utf-8")
    assert re.search(r"^step 1 +[\d.]+ % of 0\.02 min \| loss", log, re.MULTILINE)


def test_patience_stops_after_that_many_evaluations_without_a_better_loss(tmp_path: Path) -> None:
    """Guards: an early stop that is one evaluation off, or that counts any evaluation."""
    losses = iter([3.0, 2.0, 2.5, 2.2, 2.1, 1.0])
    patient = trainer(pairs(), steps=100, evaluate_every=1, patience=3)
    train(patient, tmp_path / "patient", lambda step, record: next(losses))
    assert patient.progress.step == 5
    assert patient.progress.best_loss == 2.0
    assert (tmp_path / "patient" / "checkpoints" / "best").resolve().name == "step-00000002"


def test_full_pass_loss_counts_every_token_once_whatever_the_batches() -> None:
    """Guards: a mean of batch means, which depends on the batch size."""
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
    """Guards: scalars written under other names, or lost in a buffer."""
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


def test_figures_that_come_a_step_late_are_all_told_before_an_evaluation_and_the_end(tmp_path: Path) -> None:
    """Guards: on a GPU, whose figures arrive during the next step, the line that nobody waits for; figures of another
    step."""
    told: list[list[int]] = []

    def steps_told() -> list[int]:
        return [int(n) for n in re.findall(r"^step (\d+)", (tmp_path / "late" / "log.txt").read_text(), re.MULTILINE)]

    def evaluate(step: int, record: dict) -> float:
        told.append(steps_told())
        return 1.0

    on_time, late = (trainer(pairs(), steps=7, evaluate_every=3) for _ in range(2))
    train(on_time, tmp_path / "on time")
    late.reports_late = True
    train(late, tmp_path / "late", evaluate)
    assert told == [[1, 2, 3], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]]
    values = [
        [(event.step, event.value) for event in EventAccumulator(str(tmp_path / name)).Reload().Scalars(tag)]
        for tag in ("loss", "train/gradient_norm")
        for name in ("on time", "late")
    ]
    assert values[0] == values[1]
    assert values[2] == values[3]


def test_metrics_after_the_resumed_step_and_half_lines_are_dropped(tmp_path: Path) -> None:
    """Guards: a line that a kill cut in half breaking every later reader."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 10}\n{"step": 20}\n{"step": 30}\n{"st', encoding="utf-8")
    truncate_metrics(path, 20)
    assert path.read_text(encoding="utf-8") == '{"step": 10}\n{"step": 20}\n'


def test_a_run_that_diverges_stops_with_advice_and_keeps_its_good_checkpoint(tmp_path: Path) -> None:
    """Guards: NaN weights written over the last good checkpoint, or a traceback far from the cause."""
    folder = tmp_path / "diverging"
    each = trainer(pairs(), steps=50, evaluate_every=2)

    def evaluate(step: int, record: dict) -> float:
        if step == 2:
            each.optimizer.optimizers[0].param_groups[0]["peak"] = 1e38
        return 1.0

    with pytest.raises(UserError, match=r"lower optim\.lr"):
        train(each, folder, evaluate)
    assert checkpoint_path(folder, "last").name == "step-00000002"
    assert all(bool(tensor.isfinite().all()) for tensor in load_weights(checkpoint_path(folder, "last")).values())


def test_a_signal_during_an_evaluation_saves_at_once_and_the_evaluation_is_made_up_for(tmp_path: Path) -> None:
    """Guards: a preempted run losing its grace time to a long evaluation, or skipping that evaluation for ever."""
    folder = tmp_path / "preempted"
    each = trainer(pairs(), steps=8, evaluate_every=4)

    def interrupted(step: int, record: dict) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal did not end the evaluation")

    with pytest.raises(Interrupted) as ended:
        train(each, folder, interrupted)
    assert ended.value.exit_code == 128 + signal.SIGTERM
    checkpoint = checkpoint_path(folder, "last")
    assert checkpoint.name == "step-00000004"
    again = trainer(pairs(), steps=8, evaluate_every=4)
    again.restore(load_weights(checkpoint), load_state(checkpoint))
    evaluated: list[int] = []
    log = RunLog(folder, 4)
    again.train(folder, log, lambda step, record: evaluated.append(step) or 1.0)
    log.close()
    assert evaluated == [4, 8]


def resumed(folder: Path, **settings: object) -> Trainer:
    """A new trainer where the last checkpoint in `folder` was written."""
    checkpoint = checkpoint_path(folder, "last")
    again = trainer(pairs(), **settings)
    again.restore(load_weights(checkpoint), load_state(checkpoint))
    return again


def go_on(each: Trainer, folder: Path, evaluate: Callable[[RunLog], Evaluate]) -> None:
    """Train on in `folder`, as a resume does."""
    log = RunLog(folder, each.progress.step, each.progress.evaluated_step)
    try:
        each.train(folder, log, evaluate(log))
    finally:
        log.close()


def test_an_evaluation_that_fails_loses_no_step_and_is_made_up_for(tmp_path: Path) -> None:
    """Guards: hours of training since the last checkpoint lost to an evaluation that runs out of memory."""
    folder = tmp_path / "failing"

    def fail(step: int, record: dict) -> float:
        if step == 6:
            raise MemoryError
        return 1.0 / step

    with pytest.raises(MemoryError):
        train(trainer(pairs(), steps=9, evaluate_every=3, ema=0.9), folder, fail)
    again = resumed(folder, steps=9, evaluate_every=3, ema=0.9)
    assert (again.progress.step, again.progress.evaluated_step) == (6, 3)
    go_on(again, folder, lambda log: lambda step, record: 1.0 / step)
    straight = trainer(pairs(), steps=9, evaluate_every=3, ema=0.9)
    train(straight, tmp_path / "straight")
    assert torch.equal(again.weights.flat_masters, straight.weights.flat_masters)
    lines = [curve(run / "metrics.jsonl") for run in (folder, tmp_path / "straight")]
    assert lines[0] == lines[1]
    assert [line["step"] for line in lines[0]] == [3, 6, 9]
    assert checkpoint_path(folder, "best").name == "step-00000009"


def test_the_best_checkpoint_stays_where_its_evaluation_could_not_be_recorded_at_once(tmp_path: Path) -> None:
    """Guards: the best weights dropped by the next save, because a few bytes beside them were not written."""
    each = trainer(pairs(), steps=8, evaluate_every=2)
    in_the_way = tmp_path / "checkpoints" / "step-00000004" / ".tmp-state.json"

    def evaluate(step: int, record: dict) -> float:
        if step == 4:
            in_the_way.mkdir()
        if step == 6:
            in_the_way.rmdir()
        return {2: 1.0, 4: 0.1, 6: 0.9, 8: 0.8}[step]

    log = RunLog(tmp_path, 0)
    each.train(tmp_path, log, evaluate)
    log.close()
    best = checkpoint_path(tmp_path, "best")
    assert checkpoint_step(best) == 4
    progress = json.loads((tmp_path / "checkpoints" / "last" / "state.json").read_text(encoding="utf-8"))
    assert (progress["best_step"], progress["best_loss"]) == (4, 0.1)
    load_weights(best)


def test_an_evaluation_leaves_the_random_state_alone(tmp_path: Path) -> None:
    """Guards: a run that was resumed from before its evaluation taking other steps than one that was not."""

    def draw(step: int, record: dict) -> float:
        return float(torch.rand(()))

    states = []
    for name, evaluate in (("drawing", draw), ("plain", lambda step, record: 1.0)):
        train(trainer(pairs(), steps=4, evaluate_every=2), tmp_path / name, evaluate)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_a_signal_late_in_an_evaluation_leaves_no_point_twice(tmp_path: Path) -> None:
    """Guards: curves with two values at one step, and a line of metrics.jsonl that comes again."""
    folder = tmp_path / "late"
    folder.mkdir()

    def evaluation(log: RunLog, interrupted: bool) -> Evaluate:
        def evaluate(step: int, record: dict) -> float:
            log.scalars({"val/loss": 1.0}, step)
            log.markdown("samples", "text", step)
            if interrupted and step == 6:
                os.kill(os.getpid(), signal.SIGTERM)
            return 1.0 / step

        return evaluate

    with pytest.raises(Interrupted):
        go_on(trainer(pairs(), steps=9, evaluate_every=3), folder, lambda log: evaluation(log, interrupted=True))
    assert [line["step"] for line in curve(folder / "metrics.jsonl")] == [3]
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:  # a kill before the evaluation was recorded
        file.write('{"step": 6}\n')
    go_on(resumed(folder, steps=9, evaluate_every=3), folder, lambda log: evaluation(log, interrupted=False))
    assert [line["step"] for line in curve(folder / "metrics.jsonl")] == [3, 6, 9]
    events = EventAccumulator(str(folder)).Reload()
    assert [event.step for event in EventAccumulator(str(folder / "val")).Reload().Scalars("loss")] == [3, 6, 9]
    assert [event.step for event in events.Scalars("val/best_loss")] == [3, 6, 9]
    assert [event.step for event in events.Tensors("samples/text_summary")] == [3, 6, 9]
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("instant", range(1, 1500, 75))
def test_a_signal_at_any_instant_of_an_evaluation_leaves_a_checkpoint_of_the_weights_that_were_trained(
    instant: int, tmp_path: Path
) -> None:
    """Guards: an exception that leaves the evaluation by another way than the one that is caught: nothing saved, exit
    by traceback."""
    folder = tmp_path / "interrupted"
    settings = {"steps": 2, "evaluate_every": 1, "ema": 0.9}
    passed = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal passed
        passed += event == "opcode"
        if passed == instant:
            passed += 1
            signal.raise_signal(signal.SIGTERM)
        return count

    def enter(frame: FrameType, event: str, argument: object) -> object:
        """Count within `Trainer.evaluate`, what it calls of ours, and the context managers' own code."""
        caller: FrameType | None = frame
        while caller is not None and caller.f_code is not Trainer.evaluate.__code__:
            caller = caller.f_back
        if caller is None or not frame.f_code.co_filename.endswith(
            ("trainer.py", "weights.py", "progress.py", "contextlib.py")
        ):
            return None
        frame.f_trace_opcodes = True
        return count

    each = trainer(pairs(), **settings)
    sys.settrace(enter)
    try:
        train(each, folder)
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
    assert passed >= instant
    again = resumed(folder, **settings)
    assert torch.equal(again.weights.flat_masters, each.weights.flat_masters)
    assert all(map(torch.equal, again.weights.average, each.weights.average))
    go_on(again, folder, lambda log: lambda step, record: 1.0 / step)
    straight = trainer(pairs(), **settings)
    train(straight, tmp_path / "straight")
    assert torch.equal(again.weights.flat_masters, straight.weights.flat_masters)
    assert curve(folder / "metrics.jsonl") == curve(tmp_path / "straight" / "metrics.jsonl")


def test_an_evaluation_that_takes_much_of_the_time_is_told_once(tmp_path: Path) -> None:
    """Guards: a run that evaluates most of the time, on a validation split that nobody thought of."""
    each = trainer(pairs(), steps=3, evaluate_every=1)

    def evaluate(step: int, record: dict) -> float:
        each.mark -= 60  # a minute ago
        return 1.0 / step

    train(each, tmp_path / "slow", evaluate)
    log = (tmp_path / "slow" / "log.txt").read_text(encoding="utf-8")
    assert (
        len(
            re.findall(
                r"^note: this evaluation took 60 s, 100 % of the time.*trainer\.evaluate_every", log, re.MULTILINE
            )
        )
        == 1
    )


def test_evaluations_take_a_third_of_the_time_at_most_and_the_last_one_is_made(tmp_path: Path) -> None:
    """Guards: hours of evaluations between minutes of training; a step without a checkpoint; a note that counts the
    checkpoint's time."""
    each = trainer(pairs(), steps=9, evaluate_every=1, keep=9)
    evaluated: list[int] = []
    step, save = each.step, each.save

    def evaluate(step: int, record: dict) -> float:
        evaluated.append(step)
        each.mark -= 60  # a minute ago
        return 1.0 / step

    def slow_step() -> None:
        each.mark -= 50
        step()

    def slow_save() -> None:
        each.mark -= 1000
        save()

    each.step, each.save = slow_step, slow_save  # type: ignore[method-assign]
    train(each, tmp_path / "slow", evaluate)
    assert evaluated == [1, 4, 7, 9]
    log = (tmp_path / "slow" / "log.txt").read_text(encoding="utf-8")
    assert re.findall(r"^evaluation at step (\d+) skipped: the last one took 60 s", log, re.MULTILINE) == list("23568")
    assert log.count("note: this evaluation took 60 s, 55 % of the time") == 1
    assert [path.name for path in sorted((tmp_path / "slow" / "checkpoints").glob("step-*"))] == [
        f"step-0000000{number}" for number in range(1, 10)
    ]
    assert [line["step"] for line in curve(tmp_path / "slow" / "metrics.jsonl")] == evaluated


@pytest.mark.parametrize("settings", [{"evaluate_minutes": 1}, {"evaluate_every": 1}])
def test_the_last_evaluation_is_made_where_the_time_runs_out_during_a_save(settings: dict, tmp_path: Path) -> None:
    """Guards: a run without its last evaluation, because the one before it was long."""
    each = trainer(pairs(), **{"steps": None, "minutes": 100, "evaluate_every": 10**6} | settings)
    evaluated: list[int] = []
    step, save = each.step, each.save

    def evaluate(step: int, record: dict) -> float:
        evaluated.append(step)
        each.mark -= 600
        return 1.0 / step

    def slow_step() -> None:
        each.mark -= 60
        step()

    def save_for_ever() -> None:
        if each.progress.step == 3:
            each.mark -= 6000
        save()

    each.step, each.save = slow_step, save_for_ever  # type: ignore[method-assign]
    train(each, tmp_path / "slow", evaluate)
    assert evaluated == [1, 3]


def test_an_evaluation_that_was_long_is_remembered_on_resume(tmp_path: Path) -> None:
    """Guards: a run that is preempted again and again, and evaluates most of the time."""
    folder = tmp_path / "slow"
    slow = trainer(pairs(), steps=2, evaluate_every=1)

    def evaluate(step: int, record: dict) -> float:
        slow.mark -= 60
        return 1.0

    train(slow, folder, evaluate)
    again = resumed(folder, steps=5, evaluate_every=1)
    evaluated: list[int] = []
    go_on(again, folder, lambda log: lambda step, record: evaluated.append(step) or 1.0)
    assert evaluated == [5]


def test_a_warm_up_by_time_takes_the_time_of_training_steps_alone(tmp_path: Path) -> None:
    """Guards: evaluations, checkpoints and compiling again after a resume that end the warm-up before the model has
    trained."""
    folder, settings = tmp_path / "timed", {"steps": None, "minutes": 1000, "evaluate_every": 2, "compile": "off"}
    factors: list[float] = []

    def timed(each: Trainer) -> Trainer:
        each.config.schedule = ScheduleConfig(kind="constant", warmup=10**6)
        step = each.step

        def minutes_of_step() -> None:
            factors.append(0)
            each.mark -= 60 * (15 if each.progress.step in (0, 4) else 10)
            step()
            factors[-1] = each.optimizer.optimizers[0].param_groups[0]["lr"] / each.config.optim.lr
            if each.progress.step in (4, 7):
                signal.raise_signal(signal.SIGTERM)

        each.step = minutes_of_step  # type: ignore[method-assign]
        return each

    def evaluation(each: Trainer) -> Evaluate:
        def evaluate(step: int, record: dict) -> float:
            each.mark -= 60 * 15
            return 1.0

        return evaluate

    first = timed(trainer(pairs(), **settings))
    with pytest.raises(Interrupted):
        train(first, folder, evaluation(first))
    second = timed(resumed(folder, **settings))
    with pytest.raises(Interrupted):
        go_on(second, folder, lambda log: evaluation(second))
    # A step takes 10 of the 100 minutes of warm-up; the first one of either start counts as other time does, a fifth.
    assert factors == pytest.approx([0, 0.03, 0.1, 0.2, 0.3, 0.3, 0.4], abs=1e-3)


def test_a_warm_up_by_time_ends_although_evaluations_take_nearly_all_of_it(tmp_path: Path) -> None:
    """Guards: a run that ends at its peak, never having decayed."""
    training = trainer(pairs(), steps=None, minutes=1.0, evaluate_every=1)
    training.config.schedule = ScheduleConfig(warmup=10**6)
    rates: list[float] = []

    def evaluate(step: int, record: dict) -> float:
        rates.append(training.optimizer.optimizers[0].param_groups[0]["lr"] / training.config.optim.lr)
        training.mark -= 4
        return 1.0

    train(training, tmp_path / "run", evaluate)
    assert max(rates) > 0.45
    assert rates[-1] < 0.1
    assert rates[0] < 0.01


def test_patience_is_counted_over_a_resume(tmp_path: Path) -> None:
    """Guards: every restart giving a hopeless run its full patience again."""
    folder = tmp_path / "first"
    losses = iter([1.0, 2.0])
    train(trainer(pairs(), steps=2, evaluate_every=1, patience=3), folder, lambda step, record: next(losses))
    again = trainer(pairs(), steps=100, evaluate_every=1, patience=3)
    checkpoint = checkpoint_path(folder, "last")
    again.restore(load_weights(checkpoint), load_state(checkpoint))
    train(again, tmp_path / "second", lambda step, record: 2.0)
    assert again.progress.step == 4
    assert "patience" in str(again.budget.end_of_training())
