"""State of a training run that a checkpoint holds: weights, optimiser, place in the data, counters, random numbers."""

from __future__ import annotations

import math

from torch import Tensor

from configs.errors import check_finite
from data.batches.batch import BatchStream, FirstBatches
from training.config import TrainConfig
from training.counters import Interval, Progress
from training.hardware.device import Hardware
from training.hardware.reproducibility import random_state, restore_random_state
from training.optimizer.update import Optimizer
from training.processes.single_process import Processes
from training.run_folder.loaded_run import Model
from training.sharding.choice import weights_for


class TrainingState:
    """Everything that a training step changes. Saved and restored, training continues as if it had never stopped, to
    the last bit."""

    saved_step: int | None = None
    """Step of the checkpoint that was restored."""
    data_key = ""
    """Identifies the prepared data in checkpoints, so that a resume can detect changed data."""

    def __init__(
        self, config: TrainConfig, model: Model, stream: BatchStream, hardware: Hardware, processes: Processes
    ) -> None:
        self.config, self.model, self.hardware, self.processes = config, model, hardware, processes
        self.stream = FirstBatches(stream) if config.trainer.overfit else stream
        self.weights = weights_for(config, model, hardware, processes)
        self.optimizer = Optimizer(config.optim, self.weights)
        self.progress = Progress()
        self.since_log, self.since_evaluation = Interval(), Interval()

    def saved_weights(self) -> dict[str, Tensor]:
        """Return the weights for generation, float32. Raises UserError if they have diverged."""
        if not self.weights.finite():
            check_finite("weights", math.nan, self.progress.step)
        return self.weights.saved_weights()

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

    def restore(self, weights: dict[str, Tensor], state: dict) -> None:
        """Restore the results of `state_dict`, with the counters as `state["progress"]`."""
        self.weights.load_state_dict(state["weights"], weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.stream.load_state_dict(state["stream"])
        self.progress.load_state_dict(state["progress"])
        self.saved_step = self.progress.step
        self.since_log, self.since_evaluation = (Interval.restored(interval) for interval in state["intervals"])
        if self.progress.evaluated_step == self.progress.step:  # evaluated after the state was saved
            self.since_evaluation = Interval()
        restore_random_state(state["rng"], self.hardware.device)

    def follow_first(self) -> None:
        """Copy the state of the main process, which alone reads checkpoints, or this process's part of it."""
        processes = self.processes
        if processes.world == 1:
            return
        self.weights.follow_first(processes)
        self.optimizer.follow_first(processes)
        stream, progress, self.saved_step, intervals = processes.broadcast(
            lambda: (
                self.stream.state_dict(),
                self.progress.state_dict(),
                self.saved_step,
                [interval.state_dict() for interval in (self.since_log, self.since_evaluation)],
            )
        )
        if not processes.is_main:
            self.stream.load_state_dict(stream)
            self.progress.load_state_dict(progress)
            self.since_log, self.since_evaluation = (Interval(**interval) for interval in intervals)
