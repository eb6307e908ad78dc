"""A callback of transformers' Trainer that records given texts during training."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments, logging

from attention_maps.base.errors import UserError
from attention_maps.files import store
from attention_maps.hugging_face.labels import Tokenizers
from attention_maps.hugging_face.record import Layers, check_layers
from attention_maps.hugging_face.texts import Text, check_texts, record_texts

logger = logging.get_logger(__name__)

SHARE = 0.01
"""Fraction of the time since training began that recordings may take by default."""


class AttentionCallback(TrainerCallback):
    """Records the maps of the same texts at the begin, at evaluations and at the end of training.

    They are written beside the TensorBoard events of the run, so that `tensorboard --logdir` shows both. A recording is
    left out if it would make all of them take more than 1% of the time since training began; the first and the last are
    always made. Example:

        Trainer(…, callbacks=[AttentionCallback(["Emi likes apples."], tokenizer)])
    """

    def __init__(
        self,
        texts: Sequence[Text],
        tokenizer: Tokenizers,
        *,
        every: int | None = None,
        layers: Layers | None = None,
        max_tokens: int = 128,
        logdir: str | Path | None = None,
        keep: int | None = 200,
        share: float = SHARE,
    ) -> None:
        """texts, layers, max_tokens: see `record_texts`. every: record every so many steps, too. logdir: the run
        folder; None: where the Trainer writes its TensorBoard events. keep: largest number of recorded steps, which are
        then spaced evenly; None keeps all. share: fraction of the time that recordings may take; math.inf leaves none
        out."""
        check_texts(texts)
        if every is not None and every < 1:
            raise UserError(f"every={every}: must be at least 1 or None")
        if not share >= 0:
            raise UserError(f"share={share}: must be at least 0, the fraction of the time that recordings may take")
        check_layers(layers)
        self.texts, self.tokenizer, self.every, self.layers = list(texts), tokenizer, every, layers
        self.max_tokens, self.keep, self.logdir, self.share = max_tokens, keep, logdir, share
        self.seconds = 0.0
        """Seconds that all recordings have taken."""
        self.latest = 0.0
        """Seconds of the latest one."""
        self.left_out: set[int] = set()
        """Steps without a recording, which would have taken too long."""
        self._began = 0.0
        self._step: int | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Record the untrained model, and delete recordings of steps that will be trained again."""
        if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None):
            raise UserError("AttentionCallback needs whole weights on one process: use it without FSDP and DeepSpeed")
        self._began, self.seconds, self._step = time.monotonic(), 0.0, None
        if state.is_world_process_zero:
            store.remove_after(self.folder(args), state.global_step)
            self._record(args, state, kwargs["model"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Record every `every` steps."""
        if self.every and state.global_step % self.every == 0:
            self._record_if_cheap(args, state, kwargs["model"])

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Record at every evaluation."""
        self._record_if_cheap(args, state, kwargs["model"])

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Record the trained model."""
        if state.is_world_process_zero and self._step != state.global_step:
            self._record(args, state, kwargs["model"])
        if self.left_out:
            why = f"so that all take at most {self.share:.0%} of the time (share=math.inf leaves none out)"
            logger.warning(f"AttentionCallback: no recordings of {len(self.left_out)} steps, {why}")

    def folder(self, args: TrainingArguments) -> Path:
        """Return the run folder: `logdir`, or the folder into which this process writes its TensorBoard events, or the
        output folder of the Trainer if there are none."""
        if self.logdir is not None:
            return Path(self.logdir).expanduser()
        if logdir := os.environ.get("TENSORBOARD_LOGGING_DIR"):
            return Path(logdir).expanduser()
        ours = f"events.out.tfevents.*.{os.getpid()}.*"
        event_files = sorted(Path(args.output_dir).rglob(ours), key=lambda file: file.stat().st_mtime)
        return event_files[-1].parent if event_files else Path(args.output_dir)

    def _record_if_cheap(self, args: TrainingArguments, state: TrainerState, model: Any) -> None:
        if not state.is_world_process_zero or self._step == state.global_step:
            return
        if self.seconds + 2 * self.latest > self.share * (time.monotonic() - self._began):  # this one, and the last
            self.left_out.add(state.global_step)
            return
        self._record(args, state, model)

    def _record(self, args: TrainingArguments, state: TrainerState, model: Any) -> None:
        began = time.monotonic()
        how: dict[str, Any] = {"layers": self.layers, "max_tokens": self.max_tokens}
        folder = self.folder(args)
        store.save(record_texts(model, self.tokenizer, self.texts, step=state.global_step, **how), folder)
        if self.keep is not None:
            store.thin(folder, self.keep)
        self._step = state.global_step
        self.latest = time.monotonic() - began
        self.seconds += self.latest
