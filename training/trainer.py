"""The training loop: one for both tasks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from data.batches import Batch, BatchStream
from training.checkpoints import save_checkpoint
from training.config import TrainConfig
from training.errors import UserError
from training.hardware import Hardware, use_compile
from training.loss import summed_loss
from training.optimizers import Optimizer
from training.profiling import profiler
from training.progress import Progress, StopRequest
from training.run_log import RunLog, duration, short
from training.schedules import learning_rate_factor
from training.weights import Weights


@dataclass
class Interval:
    """What happened since the last log line or the last evaluation."""

    loss: Tensor | float = 0.0
    """Sum in nats; stays on the device until it is read, so that no step waits for it."""
    targets: int = 0
    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0

    def add(self, loss: Tensor, targets: int, tokens: int, seconds: float) -> None:
        """Count one step."""
        self.loss = self.loss + loss
        self.targets += targets
        self.tokens += tokens
        self.steps += 1
        self.seconds += seconds

    @property
    def mean_loss(self) -> float:
        """Nats per target token."""
        return float(self.loss) / max(1, self.targets)

    @property
    def tokens_per_second(self) -> float:
        """Real tokens, source and target, over the time of the training steps alone."""
        return self.tokens / self.seconds if self.seconds else 0.0


class Trainer:
    """Trains `model` on `stream`; what is measured at an evaluation is the caller's `evaluate` function."""

    def __init__(
        self,
        config: TrainConfig,
        model: nn.Module,
        stream: BatchStream,
        hardware: Hardware,
        run: Path,
        log: RunLog,
        evaluate: Callable[[int, dict], float],
        flops_per_token: float,
    ) -> None:
        self.config, self.model, self.stream = config, model, stream
        self.hardware, self.run_folder, self.log = hardware, run, log
        self.evaluate_model = evaluate
        self.flops_per_token = flops_per_token
        self.weights = Weights(model.to(hardware.device), hardware.dtype, config.trainer.ema)
        self.optimizer = Optimizer(config.optim, self.weights.names, self.weights.masters)
        self.progress = Progress()
        self.since_log, self.since_evaluation = Interval(), Interval()
        self.gradient_norm: Tensor | float = math.nan
        self.forward: Callable[..., Tensor] = model
        self.compiling = use_compile(config.trainer.compile, hardware.device, config.trainer.steps)
        if self.compiling:
            self.forward = torch.compile(model)
        self.only_batches: list[Batch] | None = None

    # --- the loop

    def train(self) -> None:
        """Train until the budget is spent, patience ends or a signal asks to stop; always leaves a checkpoint behind."""
        trainer = self.config.trainer
        self.model.train()
        steps = trainer.steps
        with (
            StopRequest() as stop,
            tqdm(total=steps, initial=self.progress.step, unit="step", disable=None, dynamic_ncols=True) as bar,
            profiler(self.run_folder, self.log) if trainer.profile else nullcontext() as profile,
        ):
            while True:
                if self.evaluation_is_due():
                    self.evaluate()
                if self.finished() or stop.received:
                    break
                self.step()
                bar.update()
                if profile is not None:
                    profile.step()
                if self.progress.step % trainer.log_every == 0 or self.progress.step == steps:
                    self.log_step()
        if stop.received:
            self.save(best=False)
            name = stop.received.name
            self.log.line(f"{name}: saved step {self.progress.step}; resume={self.run_folder} goes on from there")
            raise SystemExit(128 + stop.received)

    def step(self) -> None:
        """One optimiser step over `accumulate` micro-batches."""
        started = time.perf_counter()
        batches = self.next_batches()
        targets = sum(batch.target_tokens for batch in batches)
        total = torch.zeros((), device=self.hardware.device)
        for batch in batches:
            here = batch.to(self.hardware.device)
            loss = summed_loss(self.logits(here), here.targets, self.config.trainer.label_smoothing)
            # Divided by the tokens of the whole step, not of the micro-batch: 4 x 1 equals 1 x 4 with padding too.
            (loss / targets).backward()
            self.weights.collect_gradients()
            total += loss.detach()
        self.gradient_norm = self.optimizer.step(
            learning_rate_factor(self.config.schedule, self.progress.step, self.share_done())
        )
        self.weights.publish()
        self.count(total, targets, sum(batch.tokens for batch in batches), time.perf_counter() - started)

    def next_batches(self) -> list[Batch]:
        """The micro-batches of one step."""
        if self.only_batches is not None:
            return self.only_batches
        batches = [self.stream.next_batch() for _ in range(self.config.trainer.accumulate)]
        if self.config.trainer.overfit:
            self.only_batches = batches
        return batches

    def logits(self, batch: Batch) -> Tensor:
        """Forward pass; compilation that fails on this machine is given up with one line."""
        if not self.compiling:
            return self.forward(*batch.model_inputs)
        try:
            return self.forward(*batch.model_inputs)
        except UserError:
            raise
        except Exception as error:  # the compiler raises whatever its backend raises: no compiler, no headers, no room
            reason = str(error).strip().splitlines() or [type(error).__name__]
            self.log.line(f"torch.compile does not work here ({reason[0][:120]}): going on without it")
            self.compiling, self.forward = False, self.model
            return self.model(*batch.model_inputs)

    def count(self, loss: Tensor, targets: int, tokens: int, seconds: float) -> None:
        """Advance the counters by one step."""
        for interval in (self.since_log, self.since_evaluation):
            interval.add(loss, targets, tokens, seconds)
        self.progress.step += 1
        self.progress.tokens += tokens
        self.progress.seconds += seconds

    # --- when

    def share_done(self) -> float:
        """The part of the budget that is spent, whichever of steps and minutes is further on."""
        trainer, shares = self.config.trainer, [0.0]
        if trainer.steps:
            shares.append(self.progress.step / trainer.steps)
        if trainer.minutes:
            shares.append(self.progress.seconds / (60 * trainer.minutes))
        return max(shares)

    def finished(self) -> bool:
        """Whether budget or patience is used up."""
        patience = self.config.trainer.patience
        if patience is not None and self.progress.evaluations_without_best >= patience:
            self.log.line(f"early stop: no better validation loss in {patience} evaluations")
            return True
        return self.share_done() >= 1

    def evaluation_is_due(self) -> bool:
        """At the interval and at the end, and not twice at one step."""
        trainer, progress = self.config.trainer, self.progress
        if progress.step == progress.evaluated_step:
            return False
        if self.share_done() >= 1:
            return True
        if trainer.evaluate_minutes is not None:
            return progress.seconds - progress.evaluated_seconds >= 60 * trainer.evaluate_minutes
        return progress.step % trainer.evaluate_every == 0

    # --- evaluation, checkpoints, log

    def evaluate(self) -> None:
        """Measure with the weights that are saved, remember the best, save a checkpoint."""
        started = time.perf_counter()
        interval, progress = self.since_evaluation, self.progress
        self.check_finite(interval.mean_loss)
        record = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 3),
            "epoch": round(self.stream.epoch, 4),
            "train/loss": interval.mean_loss,
            "tokens_per_second": round(interval.tokens_per_second, 1),
        }
        self.model.eval()
        with self.weights.averaged():
            loss = self.evaluate_model(progress.step, record)
        self.model.train()
        best = loss < progress.best_loss
        progress.best_loss = min(loss, progress.best_loss)
        progress.evaluations_without_best = 0 if best else progress.evaluations_without_best + 1
        progress.evaluated_step = progress.step
        progress.seconds += time.perf_counter() - started
        progress.evaluated_seconds = progress.seconds
        self.since_evaluation = Interval()
        self.log.metrics(record)
        self.save(best=best)

    def save(self, *, best: bool) -> None:
        """Write a checkpoint of this step."""
        state = {
            "weights": self.weights.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "stream": self.stream.state_dict(),
            "progress": self.progress.state_dict(),
            "rng": {
                "cpu": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            },
            "intervals": [vars(i) | {"loss": float(i.loss)} for i in (self.since_log, self.since_evaluation)],
        }
        save_checkpoint(
            self.run_folder / "checkpoints", self.progress.step, self.weights.best(), state, self.progress.state_dict(),
            best=best, keep=self.config.trainer.keep,
        )  # fmt: skip

    def restore(self, weights: dict[str, Tensor], state: dict) -> None:
        """Go on exactly where a checkpoint was written."""
        self.weights.load_state_dict(state["weights"], weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.stream.load_state_dict(state["stream"])
        self.progress.load_state_dict(state["progress"])
        self.since_log, self.since_evaluation = (Interval(**interval) for interval in state["intervals"])
        torch.set_rng_state(state["rng"]["cpu"])
        if torch.cuda.is_available() and len(state["rng"]["cuda"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["rng"]["cuda"])

    def check_finite(self, loss: float) -> None:
        """Stop a run that diverged before it overwrites a good checkpoint."""
        if not math.isfinite(loss):
            raise UserError(
                f"the training loss became {loss} by step {self.progress.step}: lower optim.lr, lengthen schedule.warmup or set "
                f"optim.clip=1; the last good checkpoint is in {self.run_folder}"
            )

    def log_step(self) -> None:
        """One informative line, and the same numbers as curves."""
        interval, progress, trainer = self.since_log, self.progress, self.config.trainer
        loss, norm = interval.mean_loss, float(self.gradient_norm)
        self.check_finite(loss)
        rate = interval.tokens_per_second
        peak = self.hardware.peak_flops
        utilisation = rate * self.flops_per_token / peak if peak else None
        learning_rate = self.optimizer.optimizers[0].param_groups[0]["lr"]
        milliseconds = 1000 * interval.seconds / interval.steps
        done = self.share_done()
        remaining = progress.seconds * (1 - done) / done if done else math.nan
        of = f"/{trainer.steps}" if trainer.steps else ""
        self.log.line(
            f"step {progress.step}{of} {100 * done:5.1f} % | loss {loss:.4f} | lr {learning_rate:.2e} | norm {norm:.2f} | "
            f"{milliseconds:.0f} ms | {short(rate)} tok/s"
            + (f" | mfu {100 * utilisation:.1f} %" if utilisation else "")
            + f" | epoch {self.stream.epoch:.2f} | eta {duration(remaining) if math.isfinite(remaining) else '?'}"
        )
        self.log.scalars(
            {
                "train/loss": loss,
                "train/learning_rate": learning_rate,
                "train/gradient_norm": norm,
                "speed/tokens_per_second": rate,
                "speed/milliseconds_per_step": milliseconds,
                "speed/mfu": utilisation,
            },
            progress.step,
        )
        self.since_log = Interval()
