"""The training loop of both tasks. `Trainer.step` is one update of the weights, `Trainer.train` the loop around it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from signal import Signals

import torch
from tqdm import tqdm

from attention_maps.record.evaluation_mode import undisturbed
from configs.errors import UserError, check_finite
from data.batches.batch import Batch, BatchStream
from training.budget_and_schedules import Budget, RecordingSchedule, learning_rate_factor
from training.checkpoints.early_weights import is_early
from training.checkpoints.loading import resume_hint
from training.checkpoints.shared_saver import saver_for
from training.config import TrainConfig
from training.counters import Interval
from training.guided_alignment.guidance import guidance_for
from training.hardware.compilation import eagerly, training_loss
from training.hardware.device import Hardware
from training.hardware.device_queue import DeviceQueue
from training.hardware.gpu_attention import evaluation_kernels, training_kernels
from training.hardware.profiling import profiler
from training.hardware.recomputation import recompute_activations
from training.hardware.reproducibility import random_state, seed_process
from training.non_finite import NonFinite
from training.processes.single_process import SINGLE, Processes
from training.run_folder.loaded_run import Model
from training.run_folder.log import RunLog
from training.run_folder.step_report import StepLog
from training.sharding.lockstep import in_lockstep
from training.state import TrainingState
from training.stop_request import Interrupted, StopRequest

Evaluate = Callable[[int, dict], float]
"""Evaluates the model at a step, adds to the metrics.jsonl record, returns the validation loss in nats per token."""
RecordAttention = Callable[[int], None]
"""Records the attention maps of the model at a step."""


class Trainer(TrainingState):
    """Trains `model` on `stream`. The constructor writes no files; `restore` loads a checkpoint, `train` trains."""

    run: Path
    log: RunLog
    evaluate_model: Evaluate
    record_attention: RecordAttention

    def __init__(
        self,
        config: TrainConfig,
        model: Model,
        stream: BatchStream,
        hardware: Hardware,
        flops_per_token: float,
        processes: Processes = SINGLE,
    ) -> None:
        """stream: of the micro-batches. flops_per_token: of a training step, to decide about compilation and to log the
        use of the hardware. processes: those that train this run together."""
        super().__init__(config, model, stream, hardware, processes)
        guidance = guidance_for(config, stream, self.weights.training_model)
        self.loss, self.compilation = training_loss(config, self.weights, hardware, flops_per_token, guidance)
        if config.trainer.recompute:
            recompute_activations(self.weights.training_model)
        self.attention_kernels = training_kernels(config, hardware.device)
        self.budget = Budget(config.trainer, self.progress)
        self.recordings = RecordingSchedule(config.attention, self.budget)
        self.saver = saver_for(processes, self.state_dict, self.progress, config.trainer.keep)
        self.stop = StopRequest(quiet=not processes.is_main, pause=processes.signal_pause)
        self.queue = DeviceQueue(hardware.device, immediate=config.trainer.find_nan)
        self.step_log = StepLog(config, self.budget, hardware, flops_per_token * processes.world)
        self.gradient_norm = torch.full((), math.nan, device=hardware.device)
        self.first_step = True
        """Whether the first step of this process, which may compile, is still to come."""
        self.mark = time.perf_counter()
        """When the time was last taken, see `lap`."""
        self.agreed_stop: Signals | None = None
        """The signal that any of several processes has received, as of the last lap."""

    # --- one step

    def step(self) -> None:
        """Update the weights once, by the gradient of `trainer.accumulate` micro-batches. On a GPU the work is only
        queued."""
        device = self.hardware.device

        # The next text to learn from. Several processes advance through the same text, and each takes its share.
        batches, targets, sources = self.next_batches()

        # Forward and backward, one micro-batch after another, since all together would not fit into memory. Each loss
        # is divided by the tokens of the whole step: the sum is then the mean over tokens, however they are divided.
        loss = torch.zeros((), device=device)
        with self.attention_kernels():
            for batch in batches:
                part, gradients = self.loss.gradients(batch.to(device), targets)
                self.weights.add(gradients)
                loss += part
        if self.processes.world > 1:  # each has seen other text; with the sum, all make the same update
            self.weights.sum_gradients(self.processes)
            self.processes.all_reduce(loss)

        # A gradient that is not a number would destroy all weights at once, so look at its norm before it is used.
        if self.first_step:
            self.loss.compile_update(self.optimizer, self.processes)
        norm = self.optimizer.gradient_norm()
        self.queue.read(torch.stack([loss, norm]), partial(self.check, self.progress.step + 1, targets, batches))

        # Update the weights. The checkpoint before may still be written from the old ones: wait for it.
        self.saver.before_update()
        self.optimizer.step(learning_rate_factor(self.config.schedule, self.budget), norm)
        self.queue.end_step()

        # What has been learnt from, and how long it took, decides what happens next and fills the next log line.
        seconds = self.lap()
        self.gradient_norm = norm
        for interval in (self.since_log, self.since_evaluation):
            interval.add(loss, targets, targets + sources, seconds)
        self.progress.count_step(targets + sources, seconds, timed=not self.first_step)
        self.first_step = False

    def next_batches(self) -> tuple[list[Batch], int, int]:
        """Return this process's micro-batches of the next step, and the target and source tokens of those of all."""
        count, processes = self.config.trainer.accumulate, self.processes
        if processes.world > 1:  # a checkpoint has the random state of the main process alone
            seed_process(self.config.seed, processes.rank, self.progress.step)
        batches = self.stream.share(count, processes.rank, processes.world)
        targets, sources = sum(batch.target_tokens for batch in batches), sum(batch.source_tokens for batch in batches)
        if processes.world > 1:
            targets, sources = map(int, processes.sum_over_processes(targets, sources))
            if self.weights.lockstep:
                batches = in_lockstep(batches, -(-count // processes.world), self.config.task)
        if self.config.trainer.find_nan:  # the step may have to be repeated, with the same dropout
            self.random_state = random_state(self.hardware.device)
        return batches, targets, sources

    def check(self, step: int, targets: int, batches: list[Batch], loss: float, norm: float) -> None:
        """Raise UserError, with the batch in a file, if the gradient of a step was not finite. loss: sum in nats."""
        if math.isfinite(norm):
            return
        bad = NonFinite(step, loss / max(1, targets), norm, batches)
        if self.config.trainer.find_nan:
            with self.weights.unaveraged():
                bad.find_cause(self.model, self.loss, targets, self.random_state)
        raise UserError(bad.report(self.run, self.processes))

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
        self.run, self.log, self.evaluate_model, self.record_attention = run, log, evaluate, record_attention
        self.data_key, self.loss.log = data_key, log.line
        self.follow_first()
        self.saver.saved_step = self.saved_step
        self.model.train()
        log.line(self.compilation)
        self.mark = time.perf_counter()
        with (
            self.stop
        ):  # also in `finish`: torchrun may signal this process later than the one that has told it to stop
            self.loop()
            self.finish()

    def loop(self) -> None:
        """Take steps until the budget or the patience is exhausted or a signal arrives; evaluate, save and record when
        it is time."""
        trainer = self.config.trainer
        profiled = trainer.profile and self.processes.is_main
        with (
            self.saver.opened(self.run, self.log),
            tqdm(total=trainer.steps, initial=self.progress.step, unit="step", disable=None, dynamic_ncols=True) as bar,
            profiler(self.run, self.log, self.hardware.device) if profiled else nullcontext() as profile,
        ):
            while not self.stopped_by:
                # Once in a while, see how well the model does on text that it does not train on; save it first.
                if self.budget.evaluation_is_due():
                    self.evaluate()
                elif self.progress.step % trainer.log_every == 0 and self.saver.retry_is_due():
                    self.save_between()  # the disk was full, or somebody has renamed the run
                if trainer.early_weights and is_early(self.progress.step):
                    self.save_between(weights_alone=True)
                # More often, and most often at the beginning, where heads form: record what they attend to.
                if self.recordings.is_due():
                    self.record_maps()
                # Evaluations and recordings take time too, so ask only now whether there is time for another step.
                ended = self.budget.end_of_training()
                if ended and self.budget.evaluation_is_due():
                    continue  # the time budget ran out during a checkpoint write
                if ended or self.stopped_by:
                    break
                self.step()
                bar.update()
                if profile is not None:
                    profile.step()
                if self.progress.step % trainer.log_every == 0 or self.progress.step == trainer.steps:
                    self.report_step()

    def finish(self) -> None:
        """Save the last step of a run that was interrupted. Raises Interrupted after that, and UserError if the last
        checkpoint could not be written."""
        self.catch_up()
        if self.stopped_by:
            self.saver.save()
            self.saver.wait()
        if self.saver.failure is not None:
            raise UserError(f"{self.saver.failure}; {resume_hint(self.run)}")
        if self.stopped_by:
            self.log.line(f"{self.stopped_by.name}: saved step {self.progress.step}; continue with resume={self.run}")
            self.processes.barrier()  # torchrun stops the others as soon as one has ended
            raise Interrupted(self.stopped_by, by_all=True)

    def report_step(self) -> None:
        """Write a log line on the steps since the last one; on a GPU, when it has finished them."""
        rate, epoch = self.optimizer.learning_rate, self.stream.epoch
        results, write = self.step_log.line(self.log, self.since_log, self.gradient_norm, rate, epoch)
        self.queue.read(results, write)
        if not self.queue.asynchronous:
            self.queue.drain()
        self.since_log = Interval()

    # --- between the steps

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
        # First the checkpoint: whatever happens from here on, no step is lost. A thread writes it.
        self.saver.save()
        progress.seconds += self.lap()
        # Then the evaluation, all or nothing: a signal ends it at once, and a resumed run makes it again.
        try:
            with self.log.whole_or_nothing(), self.stop.at_once(), self.evaluating():
                loss = self.evaluate_model(progress.step, record)
        except Interrupted as interrupted:
            if self.processes.world == 1:
                return
            # The other processes may be at another place of the evaluation: no further exchange is possible.
            self.saver.wait()
            self.log.line(f"{interrupted}: {resume_hint(self.run)}")
            raise
        seconds = self.lap()
        progress.seconds += seconds
        before = progress.best_loss, progress.best_step, progress.best_training_loss
        best = progress.count_evaluation(loss, training_loss, seconds)
        self.log.scalars({"val/best_loss": progress.best_loss}, progress.step)
        self.step_log.note_long_evaluation(self.log, seconds, interval.seconds)
        self.since_evaluation = Interval()
        self.recordings.count(0.0)
        self.log.metrics(record)
        # Last, the result goes into the checkpoint: the best loss must belong to saved weights.
        if not self.saver.record(best) and self.saver.saved_step != progress.step:
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
            eagerly(self.loss.compiled),
            evaluation_kernels(self.hardware.device),
        ):
            yield

    # --- the time, and signals

    @property
    def stopped_by(self) -> Signals | None:
        """The signal that stops training, if one was received."""
        return self.stop.received if self.processes.world == 1 else self.agreed_stop

    def lap(self) -> float:
        """Return the seconds since the previous lap. Laps are contiguous, so waiting for a GPU's queue is included."""
        last, self.mark = self.mark, time.perf_counter()
        return self.mark - last if self.processes.world == 1 else self.agree(self.mark - last)

    def agree(self, seconds: float) -> float:
        """Share with the other processes what only one of them may know: a signal, a failed compilation. Return the
        seconds of the main one, by whose clock all go: their counters and so their decisions are then equal."""
        here = seconds if self.processes.is_main else 0.0
        seconds, number, failed = self.processes.max_over_processes(here, self.stop.received or 0, self.loss.failed)
        self.agreed_stop = Signals(int(number)) if number else None
        if failed and not self.loss.failed:
            self.loss.fall_back("compiled code has failed in another process")
        return seconds

    def catch_up(self) -> None:
        """Wait for queued GPU steps, count the time as training time, and write the pending log line."""
        self.queue.drain()
        if self.queue.asynchronous:
            seconds = self.lap()
            for interval in (self.since_log, self.since_evaluation):
                interval.seconds += seconds
            self.progress.seconds += seconds
            self.progress.step_seconds += seconds
