"""The training loop, shared by both tasks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from signal import Signals

import torch
from torch import Tensor
from tqdm import tqdm

from attention_maps.record.undisturbed import undisturbed
from configs.errors import UserError, check_finite
from data.batches.batch import Batch, BatchStream
from training.budget import Budget
from training.checkpoints.early_weights import is_early
from training.checkpoints.loading import resume_hint
from training.checkpoints.shared_saver import saver_for
from training.config import TrainConfig
from training.guided_alignment.guidance import guidance_for
from training.hardware import compilation, recomputation
from training.hardware.device import Hardware
from training.hardware.device_queue import DeviceQueue
from training.hardware.gpu_attention import evaluation_kernels, training_kernels
from training.hardware.profiling import profiler
from training.hardware.reproducibility import random_state, restore_random_state, seed_process
from training.loss_spikes import LossSpikes
from training.nan_search import first_non_finite
from training.optimizer.optimizer import Optimizer
from training.optimizer.schedules import learning_rate_factor
from training.processes.processes import SINGLE, Processes
from training.progress import Interrupted, Interval, Progress, StopRequest
from training.recording_schedule import RecordingSchedule
from training.run_folder.loaded_run import Model
from training.run_folder.log import RunLog
from training.run_folder.step_report import StepReport, long_evaluation
from training.sharding.choice import weights_for
from training.sharding.lockstep import in_lockstep
from training.skipped_steps import SkippedSteps

Evaluate = Callable[[int, dict], float]
"""Evaluates the model at a step, adds to the metrics.jsonl record, returns the validation loss in nats per token."""
RecordAttention = Callable[[int], None]
"""Records the attention maps of the model at a step."""


class Trainer:
    """Trains `model` on `stream`. The constructor writes no files; `restore` loads a checkpoint, `train` trains."""

    run_folder: Path
    log: RunLog
    evaluate_model: Evaluate
    record_attention: RecordAttention
    data_key: str

    def __init__(
        self,
        config: TrainConfig,
        model: Model,
        stream: BatchStream,
        hardware: Hardware,
        flops_per_token: float,
        processes: Processes = SINGLE,
    ) -> None:
        self.config, self.model, self.stream, self.hardware = config, model, stream, hardware
        self.processes = processes
        self.flops_per_token = flops_per_token
        self.weights = weights_for(config, model, hardware, processes)
        self.optimizer = Optimizer(config.optim, self.weights)
        self.progress = Progress()
        self.budget = Budget(config.trainer, self.progress)
        self.recordings = RecordingSchedule(config.attention, self.budget)
        self.saver = saver_for(processes, self.state_dict, self.progress, config.trainer.keep)
        self.since_log, self.since_evaluation = Interval(), Interval()
        self.gradient_norm = torch.full((), math.nan, device=hardware.device)
        self.queue = DeviceQueue(hardware.device)
        self.skipped = SkippedSteps(config.trainer, self.progress, self.queue, processes)
        self.spikes = LossSpikes()
        self.report: StepReport | None = None
        self.noted_long_evaluation = False
        self.first_step = True
        """Whether the first step of this process, which may compile, is still to come."""
        self.reports_late = self.queue.asynchronous
        self.loss = compilation.TrainingLoss(config, self.weights, hardware, flops_per_token)
        self.loss.guidance = guidance_for(config, stream, self.weights.training_model)
        if config.trainer.recompute:
            recomputation.recompute_activations(self.weights.training_model)
        self.only_batches: list[Batch] | None = None
        self.stop = StopRequest(quiet=not processes.is_main, pause=processes.signal_pause)
        self.agreed_stop: Signals | None = None
        """The signal that any of several processes has received, as of the last lap."""
        self.mark = time.perf_counter()

    # --- the loop

    def train(
        self,
        run: Path,
        log: RunLog,
        evaluate: Evaluate,
        record_attention: RecordAttention = lambda step: None,
        data_key: str = "",
    ) -> None:
        """Train until the budget or the patience is exhausted; raises Interrupted, after saving, if a signal arrives.

        data_key: identifies the prepared data in checkpoints, so that a resume can detect changed data.
        """
        self.run_folder, self.log, self.evaluate_model, self.data_key = run, log, evaluate, data_key
        self.record_attention = record_attention
        trainer = self.config.trainer
        self.follow_first()
        self.model.train()
        self.loss.log = log.line
        log.line(f"torch.compile: {'on' if self.loss.compiling else 'off'} ({self.loss.because})")
        self.mark = time.perf_counter()
        profiled = trainer.profile and self.processes.is_main
        with (
            self.stop,
            self.saver.opened(run, log),
            tqdm(total=trainer.steps, initial=self.progress.step, unit="step", disable=None, dynamic_ncols=True) as bar,
            profiler(run, log, self.hardware.device) if profiled else nullcontext() as profile,
        ):
            while not self.stopped_by:
                if self.budget.evaluation_is_due():
                    self.evaluate()
                elif self.saver.retry_is_due():
                    self.save_between()
                if trainer.early_weights and is_early(self.progress.step):
                    self.save_between(weights_alone=True)
                if self.recordings.is_due():
                    self.record_maps()
                ended = self.budget.end_of_training()
                if ended and self.budget.evaluation_is_due():
                    continue  # the time budget ran out during a checkpoint write
                if ended or self.stopped_by:
                    break
                self.step()
                self.skipped.report(log, run)
                bar.update()
                if profile is not None:
                    profile.step()
                self.write_report()
                if self.progress.step % trainer.log_every == 0 or self.progress.step == trainer.steps:
                    self.report_step()
        self.catch_up()
        if self.stopped_by:
            self.saver.save()
            self.saver.wait()
        if self.saver.failure is not None:
            raise UserError(f"{self.saver.failure}; {resume_hint(run)}")
        if self.stopped_by:
            log.line(f"{self.stopped_by.name}: saved step {self.progress.step}; continue with resume={run}")
            self.processes.barrier()  # torchrun stops the others as soon as one has ended
            raise Interrupted(self.stopped_by, by_all=True)

    def step(self) -> None:
        """Run one optimiser step over `accumulate` micro-batches, of which each process takes its part. On a GPU, queue
        it without waiting for results."""
        processes = self.processes
        if processes.world > 1:  # a checkpoint has the random state of the main process alone
            seed_process(self.config.seed, processes.rank, self.progress.step)
        batches = self.only_batches
        if batches is None:
            batches = self.stream.share(self.config.trainer.accumulate, processes.rank, processes.world)
        if self.config.trainer.overfit:
            self.only_batches = batches
        counted = sum(batch.target_tokens for batch in batches), sum(batch.source_tokens for batch in batches)
        targets, sources = map(int, processes.sum_over_processes(*counted))
        if self.weights.lockstep:
            batches = in_lockstep(batches, -(-self.config.trainer.accumulate // processes.world), self.config.task)
        total = torch.zeros((), device=self.hardware.device)
        state = random_state(self.hardware.device) if self.config.trainer.find_nan else None
        with training_kernels(self.config, self.hardware.device):
            for batch in batches:
                loss, gradients = self.loss.gradients(batch.to(self.hardware.device), targets)
                self.weights.add(gradients)
                total += loss
        self.weights.sum_gradients(processes)
        processes.all_reduce(total)
        done, warmed_up = self.budget.share_done(), self.budget.share_warmed_up()
        factor = learning_rate_factor(self.config.schedule, self.progress.step, done, warmed_up)
        self.saver.before_update()
        if self.first_step:
            self.loss.compile_update(self.optimizer, processes)
        self.gradient_norm = self.optimizer.step(factor)
        self.queue.end_step()
        seconds = self.lap()
        for interval in (self.since_log, self.since_evaluation):
            interval.add(total, targets, targets + sources, seconds, self.optimizer.applied)
        self.progress.step += 1
        cause = None
        if state is not None and not self.optimizer.applied:
            with self.weights.unaveraged():
                smoothing, r_drop = self.loss.smoothing, self.loss.r_drop
                guidance = self.loss.guidance
                cause = first_non_finite(self.model, batches, targets, smoothing, state, r_drop, guidance)
        self.skipped.add(total, self.gradient_norm, targets, batches, cause)
        self.progress.tokens += targets + sources
        self.progress.seconds += seconds
        self.progress.step_seconds += 0.0 if self.first_step else seconds
        self.first_step = False

    @property
    def stopped_by(self) -> Signals | None:
        """The signal that stops training, if one was received."""
        return self.stop.received if self.processes.world == 1 else self.agreed_stop

    def lap(self) -> float:
        """Return the seconds since the previous lap. Laps are contiguous, so waiting for a GPU's queue is included.

        Several processes go by the clock of the main one, which makes their counters and therefore their decisions
        equal; they also share what only one of them may know: a signal, a failed compilation.
        """
        last, self.mark = self.mark, time.perf_counter()
        here = self.mark - last if self.processes.is_main else 0.0
        seconds, number, failed = self.processes.max_over_processes(here, self.stop.received or 0, self.loss.failed)
        self.agreed_stop = Signals(int(number)) if number else None
        if failed and not self.loss.failed:
            self.loss.fall_back("compiled code has failed in another process")
        return seconds

    def catch_up(self) -> None:
        """Wait for queued GPU steps, count the time as training time, and write the pending log line."""
        if self.queue.asynchronous:
            self.queue.drain()
            seconds = self.lap()
            for interval in (self.since_log, self.since_evaluation):
                interval.seconds += seconds
            self.progress.seconds += seconds
            self.progress.step_seconds += seconds
        self.skipped.settle()
        self.skipped.report(self.log, self.run_folder)
        self.write_report()

    # --- evaluation, checkpoints, log

    def evaluate(self) -> None:
        """Save a checkpoint, evaluate the saved weights while it is written, and update the best loss.

        If the evaluation fails or is interrupted, no training step is lost, and a resumed run repeats the evaluation.
        An evaluation due too soon after a long one is skipped; only the checkpoint is saved.
        """
        self.catch_up()
        interval, progress = self.since_evaluation, self.progress
        training_loss = interval.mean_loss
        check_finite("training loss", training_loss, progress.step)
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
            "train/loss": training_loss,
            "tokens_per_second": round(interval.tokens_per_second, 1),
        }
        self.saver.save()
        progress.seconds += self.lap()
        try:
            with self.log.whole_or_nothing(), self.stop.at_once(), self.evaluating():
                loss = self.evaluate_model(progress.step, record)
        except Interrupted as interrupted:
            if self.processes.world == 1:
                return
            # The other processes may be at another place of the evaluation: no further exchange is possible.
            self.saver.wait()
            self.log.line(f"{interrupted}: {resume_hint(self.run_folder)}")
            raise
        seconds = self.lap()
        progress.seconds += seconds
        before = progress.best_loss, progress.best_step, progress.best_training_loss
        best = progress.count_evaluation(loss, training_loss, seconds)
        self.log.scalars({"val/best_loss": progress.best_loss}, progress.step)
        note = None if self.noted_long_evaluation else long_evaluation(self.config, seconds, interval.seconds)
        if note is not None:
            self.log.line(note)
            self.noted_long_evaluation = True
        self.since_evaluation = Interval()
        self.recordings.count(0.0)
        self.log.metrics(record)
        if not self.saver.record(best) and self.saver.saved_step != progress.step:
            # The best loss must belong to a saved checkpoint.
            progress.best_loss, progress.best_step, progress.best_training_loss = before
        progress.seconds += self.lap()

    def record_maps(self) -> None:
        """Record attention maps between two evaluations."""
        self.catch_up()
        with self.evaluating():
            self.record_attention(self.progress.step)
        seconds = self.lap()
        self.progress.seconds += seconds
        self.recordings.count(seconds)

    def save_between(self, weights_alone: bool = False) -> None:
        """Save without an evaluation, after a skipped evaluation or a failed save, or the weights of an early step."""
        self.catch_up()
        self.saver.save_weights(self.saved_weights()) if weights_alone else self.saver.save()
        self.progress.seconds += self.lap()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside the context the model is in eval mode with the weights to be saved. Preserves the random state."""
        with (
            undisturbed(self.model),
            self.weights.averaged(),
            compilation.eagerly(self.loss.compiled),
            evaluation_kernels(self.hardware.device),
        ):
            yield

    def state_dict(self) -> tuple[dict[str, Tensor], dict]:
        """Return the weights for generation and the remaining state, as tensors and plain values, without the counters.

        Raises UserError if the weights have diverged.
        """
        return self.saved_weights(), {
            "weights": self.weights.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "stream": self.stream.state_dict(),
            "data": self.data_key,
            "rng": random_state(self.hardware.device),
            "intervals": [interval.state_dict() for interval in (self.since_log, self.since_evaluation)],
        }

    def saved_weights(self) -> dict[str, Tensor]:
        """Return the weights for generation. Raises UserError if they have diverged."""
        if not self.weights.finite():
            check_finite("weights", math.nan, self.progress.step)
        return self.weights.saved_weights()

    def follow_first(self) -> None:
        """Copy the state of the main process, which alone reads checkpoints, or this process's part of it."""
        processes = self.processes
        if processes.world == 1:
            return
        self.weights.follow_first(processes)
        self.optimizer.follow_first(processes)
        stream, progress, saved_step, intervals = processes.broadcast(
            lambda: (
                self.stream.state_dict(),
                self.progress.state_dict(),
                self.saver.saved_step,
                [interval.state_dict() for interval in (self.since_log, self.since_evaluation)],
            )
        )
        if not processes.is_main:
            if not self.config.trainer.overfit:
                self.stream.load_state_dict(stream)
            self.progress.load_state_dict(progress)
            self.saver.saved_step = saved_step
            self.since_log, self.since_evaluation = (Interval(**interval) for interval in intervals)

    def restore(self, weights: dict[str, Tensor], state: dict) -> None:
        """Restore the exact training state of a checkpoint.

        state: that of `state_dict`, with the counters as `progress`.
        """
        self.weights.load_state_dict(state["weights"], weights)
        self.optimizer.load_state_dict(state["optimizer"])
        if not self.config.trainer.overfit:  # overfitting always uses the first batch
            self.stream.load_state_dict(state["stream"])
        self.progress.load_state_dict(state["progress"])
        self.saver.saved_step = self.progress.step
        self.since_log, self.since_evaluation = (Interval.restored(interval) for interval in state["intervals"])
        if self.progress.evaluated_step == self.progress.step:  # evaluated after the state was saved
            self.since_evaluation = Interval()
        restore_random_state(state["rng"], self.hardware.device)

    def report_step(self) -> None:
        """Prepare this step's log line. A CPU writes the line at once, a GPU after the next step is queued."""
        interval, peak = self.since_log, self.hardware.peak_flops
        mfu = interval.tokens_per_second * self.flops_per_token / (peak * self.processes.world) if peak else None
        self.report = StepReport(
            self.budget, interval, self.gradient_norm, self.optimizer.learning_rate, mfu, self.stream.epoch
        )
        self.since_log = Interval()
        if not self.reports_late:
            self.write_report()

    def write_report(self) -> None:
        """Write the pending log line, if any."""
        report, self.report = self.report, None
        if report is not None:
            report.write(self.log, self.spikes)
