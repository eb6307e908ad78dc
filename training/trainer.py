"""The training loop: one for both tasks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from attention_maps.record.undisturbed import undisturbed
from configs.errors import UserError, check_finite
from data.batches.batch import Batch, BatchStream
from generation.cuda.host_copy import HostCopy
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.budget import Budget
from training.config import TrainConfig
from training.hardware import compilation, recomputation
from training.hardware.device import Hardware
from training.hardware.device_queue import DeviceQueue
from training.hardware.gpu_attention import evaluation_kernels, training_kernels
from training.hardware.profiling import profiler
from training.hardware.reproducibility import random_state, restore_random_state
from training.optimizer.optimizer import Optimizer
from training.optimizer.schedules import learning_rate_factor
from training.optimizer.weights import Weights
from training.progress import Interrupted, Interval, Progress, StopRequest
from training.run_folder.checkpoints import NotSaved, left_to_go_on, record_evaluation, save_checkpoint
from training.run_folder.log import RunLog
from training.run_folder.step_report import StepReport, long_evaluation

RETRY_SECONDS = 60
"""Seconds of training after which a checkpoint that could not be written is tried again."""

Evaluate = Callable[[int, dict], float]
"""Measures the model at a step, adds to the line of metrics.jsonl, returns the validation loss in nats per token."""


class Trainer:
    """Trains `model` on `stream`. Building one writes nothing; `restore` puts it where a checkpoint was, `train`
    begins."""

    run_folder: Path
    log: RunLog
    evaluate_model: Evaluate
    data_key: str

    def __init__(
        self,
        config: TrainConfig,
        model: GPT | EncoderDecoder,
        stream: BatchStream,
        hardware: Hardware,
        flops_per_token: float,
    ) -> None:
        self.config, self.model, self.stream = config, model, stream
        self.hardware = hardware
        self.flops_per_token = flops_per_token
        self.weights = Weights(model.to(hardware.device), hardware.dtype, config.trainer.ema)
        self.optimizer = Optimizer(config.optim, self.weights)
        self.progress = Progress()
        self.budget = Budget(config.trainer, self.progress)
        self.saved_step: int | None = None
        self.unrecorded: tuple[dict, bool] | None = None
        """Counters after an evaluation that could not be saved yet, and whether it was the best; `last` is its
        checkpoint."""
        self.failure: str | None = None
        self.retry_at = math.inf
        self.since_log, self.since_evaluation = Interval(), Interval()
        self.gradient_norm = torch.full((), math.nan, device=hardware.device)
        self.queue = DeviceQueue(hardware.device)
        self.report: StepReport | None = None
        self.told_of_long_evaluation = False
        self.first_step = True
        """The first step of this start, which may compile, is still to come."""
        self.reports_late = self.queue.asynchronous
        self.loss = compilation.TrainingLoss(config, model, hardware, flops_per_token)
        if config.trainer.recompute:
            recomputation.recompute_activations(model)
        self.only_batches: list[Batch] | None = None
        self.mark = time.perf_counter()

    # --- the loop

    def train(self, run: Path, log: RunLog, evaluate: Evaluate, data_key: str = "") -> None:
        """Train until the budget is spent or patience ends; raises Interrupted, with everything saved, when a signal
        came.

        `data_key` names the prepared data in checkpoints, so that a resume can tell that it is the same.
        """
        self.run_folder, self.log, self.evaluate_model, self.data_key = run, log, evaluate, data_key
        trainer = self.config.trainer
        self.model.train()
        self.loss.say = log.line
        log.line(f"torch.compile: {'on' if self.loss.compiling else 'off'} ({self.loss.because})")
        self.mark = time.perf_counter()
        with (
            StopRequest() as stop,
            tqdm(total=trainer.steps, initial=self.progress.step, unit="step", disable=None, dynamic_ncols=True) as bar,
            profiler(self.run_folder, self.log, self.hardware.device) if trainer.profile else nullcontext() as profile,
        ):
            while not stop.received:
                if self.budget.evaluation_is_due():
                    self.evaluate(stop)
                elif self.progress.seconds >= self.retry_at:
                    self.save_between()
                ended = self.budget.end_of_training()
                if ended and self.budget.evaluation_is_due():
                    continue  # the time ran out while a checkpoint was written
                if ended or stop.received:
                    break
                self.step()
                bar.update()
                if profile is not None:
                    profile.step()
                self.write_report()
                if self.progress.step % trainer.log_every == 0 or self.progress.step == trainer.steps:
                    self.report_step()
        self.catch_up()
        if stop.received:
            self.attempt(self.save)
        if self.failure is not None:
            raise UserError(f"{self.failure}; {left_to_go_on(self.run_folder)}")
        if stop.received:
            self.log.line(
                f"{stop.received.name}: saved step {self.progress.step}; resume={self.run_folder} goes on from there"
            )
            raise Interrupted(stop.received)

    def step(self) -> None:
        """One optimiser step over `accumulate` micro-batches. On a GPU it is queued, and nothing in it waits for a
        result."""
        batches = self.next_batches()
        targets = sum(batch.target_tokens for batch in batches)
        total = torch.zeros((), device=self.hardware.device)
        with training_kernels(self.config, self.hardware.device):
            for batch in batches:
                total += self.loss.backward(batch.to(self.hardware.device), targets)
                self.weights.collect_gradients()
        done, warmed_up = self.budget.share_done(), self.budget.share_warmed_up()
        factor = learning_rate_factor(self.config.schedule, self.progress.step, done, warmed_up)
        self.gradient_norm = self.optimizer.step(factor)
        self.weights.publish()
        self.queue.end_step()
        self.count(total, targets, sum(batch.tokens for batch in batches))

    @property
    def compiled(self) -> bool:
        """Whether training steps run compiled code."""
        return self.loss.compiled

    def next_batches(self) -> list[Batch]:
        """The micro-batches of one step."""
        if self.only_batches is not None:
            return self.only_batches
        batches = [self.stream.next_batch() for _ in range(self.config.trainer.accumulate)]
        if self.config.trainer.overfit:
            self.only_batches = batches
        return batches

    def count(self, loss: Tensor, targets: int, tokens: int) -> None:
        """Advance the counters by one step."""
        seconds = self.lap()
        for interval in (self.since_log, self.since_evaluation):
            interval.add(loss, targets, tokens, seconds)
        self.progress.step += 1
        self.progress.tokens += tokens
        self.progress.seconds += seconds
        self.progress.step_seconds += 0.0 if self.first_step else seconds
        self.first_step = False

    def lap(self) -> float:
        """Seconds since the last lap: from step to step, so that work a GPU still has queued is counted when it is
        waited for."""
        last, self.mark = self.mark, time.perf_counter()
        return self.mark - last

    def catch_up(self) -> None:
        """Wait for the steps that a GPU has not done yet, on training's account, and write the line that is pending."""
        if self.queue.asynchronous:
            self.queue.drain()
            seconds = self.lap()
            for interval in (self.since_log, self.since_evaluation):
                interval.seconds += seconds
            self.progress.seconds += seconds
            self.progress.step_seconds += seconds
        self.write_report()

    # --- evaluation, checkpoints, log

    def evaluate(self, stop: StopRequest) -> None:
        """Save a checkpoint, measure with the weights that are saved, remember the best.

        What happens to the evaluation cannot lose the steps before it: a resume makes up for it. One that comes too
        soon after a long one is left out, and the checkpoint alone is saved.
        """
        self.catch_up()
        interval, progress = self.since_evaluation, self.progress
        check_finite("training loss", interval.mean_loss, progress.step)
        if (too_soon := self.budget.too_soon(interval.seconds)) is not None:
            self.log.line(too_soon)
            progress.evaluated_seconds = progress.seconds
            self.save_between()
            return
        record = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 3),
            "epoch": round(self.stream.epoch, 4),
            "train/loss": interval.mean_loss,
            "tokens_per_second": round(interval.tokens_per_second, 1),
        }
        self.attempt(self.save)
        progress.seconds += self.lap()
        try:
            with self.log.whole_or_nothing(), stop.at_once(), self.evaluating():
                loss = self.evaluate_model(progress.step, record)
        except Interrupted:
            return
        seconds = self.lap()
        progress.seconds += seconds
        before = progress.best_loss, progress.best_step, progress.best_training_loss
        best = progress.count_evaluation(loss, interval.mean_loss, seconds)
        self.log.scalars({"val/best_loss": progress.best_loss}, progress.step)
        note = None if self.told_of_long_evaluation else long_evaluation(self.config, seconds, interval.seconds)
        if note is not None:
            self.log.line(note)
            self.told_of_long_evaluation = True
        self.since_evaluation = Interval()
        self.log.metrics(record)
        if not self.attempt(lambda: self.record(best)) and self.saved_step != progress.step:
            # of a checkpoint that is there
            progress.best_loss, progress.best_step, progress.best_training_loss = before
        progress.seconds += self.lap()

    def record(self, best: bool) -> None:
        """Save what the evaluation has found with the checkpoint of this step."""
        self.save()
        self.unrecorded = self.progress.state_dict(), best
        self.record_pending()

    def record_pending(self) -> None:
        """Save what an evaluation has found, unless that is done; before any newer checkpoint, which would drop the one
        it is about."""
        if self.unrecorded is not None:
            progress, best = self.unrecorded
            record_evaluation(self.checkpoints, progress, best=best, keep=self.config.trainer.keep)
            self.unrecorded = None

    def attempt(self, write: Callable[[], None]) -> bool:
        """Whether a checkpoint could be written. Where it could not, a line says so, training goes on, and it is tried
        again soon."""
        try:
            write()
        except NotSaved as error:
            if self.failure is None:
                self.log.line(f"warning: {error}; training goes on, the next try is in {RETRY_SECONDS} seconds")
            self.failure, self.retry_at = str(error), self.progress.seconds + RETRY_SECONDS
            return False
        if self.failure is not None:
            self.log.line(f"step {self.progress.step} is saved: the disk can be written again")
        self.failure, self.retry_at = None, math.inf
        return True

    def save_between(self) -> None:
        """Save without an evaluation: one is left out, or a save has failed."""
        self.catch_up()
        self.attempt(self.save)
        self.progress.seconds += self.lap()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within: the model is what is saved and used later, in eval mode; training goes on with the random state of
        before."""
        with (
            undisturbed(self.model),
            self.weights.averaged(),
            compilation.eagerly(self.compiled),
            evaluation_kernels(self.hardware.device),
        ):
            yield

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are written."""
        return self.run_folder / "checkpoints"

    def save(self) -> None:
        """Write a checkpoint of this step, unless there is one; never one with weights that diverged."""
        self.record_pending()
        if self.saved_step == self.progress.step:
            return
        if not bool(self.weights.flat_masters.isfinite().all()):
            check_finite("weights", math.nan, self.progress.step)
        state = {
            "weights": self.weights.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "stream": self.stream.state_dict(),
            "data": self.data_key,
            "rng": random_state(self.hardware.device),
            "intervals": [vars(i) | {"loss": float(i.loss)} for i in (self.since_log, self.since_evaluation)],
        }
        save_checkpoint(
            self.checkpoints,
            self.progress.step,
            self.weights.best(),
            state,
            self.progress.state_dict(),
            keep=self.config.trainer.keep,
        )
        self.saved_step = self.progress.step

    def restore(self, weights: dict[str, Tensor], state: dict) -> None:
        """Go on exactly where a checkpoint was written."""
        self.weights.load_state_dict(state["weights"], weights)
        self.optimizer.load_state_dict(state["optimizer"])
        if not self.config.trainer.overfit:  # which begins with the first batch every time
            self.stream.load_state_dict(state["stream"])
        self.progress.load_state_dict(state["progress"])
        self.saved_step = self.progress.step
        self.since_log, self.since_evaluation = (Interval(**interval) for interval in state["intervals"])
        if self.progress.evaluated_step == self.progress.step:  # evaluated after the state was saved
            self.since_evaluation = Interval()
        restore_random_state(state["rng"], self.hardware.device)

    def report_step(self) -> None:
        """Note what the log will say of this step. A CPU's line is written at once, a GPU's when the next step is
        queued."""
        interval, progress, trainer = self.since_log, self.progress, self.config.trainer
        rate, peak, done = interval.tokens_per_second, self.hardware.peak_flops, self.budget.share_done()
        assert isinstance(interval.loss, Tensor)
        self.report = StepReport(
            step=progress.step,
            steps=trainer.steps,
            minutes=trainer.minutes if self.budget.share_of_steps() < done else None,
            share_done=done,
            learning_rate=self.optimizer.optimizers[0].param_groups[0]["lr"],
            milliseconds=1000 * interval.seconds / interval.steps,
            tokens_per_second=rate,
            utilisation=rate * self.flops_per_token / peak if peak else None,
            epoch=self.stream.epoch,
            remaining=progress.seconds * (1 - done) / done if done else math.nan,
            targets=interval.targets,
            loss_and_norm=HostCopy(torch.stack([interval.loss, self.gradient_norm])),
        )
        self.since_log = Interval()
        if not self.reports_late:
            self.write_report()

    def write_report(self) -> None:
        """Write the line that is pending, if one is."""
        report, self.report = self.report, None
        if report is not None:
            report.write(self.log)
