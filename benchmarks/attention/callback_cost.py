"""Measure what `AttentionCallback` costs a run of transformers' Trainer.

Train a GPT-2 on sentences of the built-in corpus, with and without the callback in turns, and
evaluate often. Print the duration of the runs, the time spent in the callback and its fraction of the run.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_maps.files import store
from attention_maps.hugging_face.callback import SHARE
from configs.errors import UserError
from data.primer import rows

TEXTS = 3
"""Recorded texts."""
LENGTH, BATCH, EVALUATIONS = 64, 16, 20
"""Tokens of a text, texts of a step, evaluations of a run."""


@dataclass
class CallbackCostSettings:
    """Settings of `callback_cost`."""

    steps: int = 160
    """Training steps of each run."""

    rounds: int = 3
    """Runs with the callback, and as many without."""

    layers: int = 4
    """Layers of the model."""

    width: int = 256
    """Width of the model, a multiple of 64: heads are 64 wide."""


@dataclass
class Run:
    """One training run."""

    seconds: float
    in_callback: float = 0.0
    """Seconds."""
    recorded: int = 0
    left_out: int = 0


def callback_cost(settings: CallbackCostSettings) -> None:
    """Measure the fraction of a Trainer run spent on recording attention. The defaults take about four
    minutes on two cores, nearly all of it the training steps of the six runs."""
    if settings.steps < EVALUATIONS or settings.rounds < 1:
        raise UserError(f"steps must be at least {EVALUATIONS}, and rounds at least 1")
    if settings.layers < 1 or settings.width < 64 or settings.width % 64:
        raise UserError(f"width={settings.width} must be a multiple of 64, and layers at least 1")
    try:
        import accelerate  # noqa: F401  (the Trainer needs it)
        import transformers  # noqa: F401
    except ImportError:
        raise UserError("transformers or accelerate is not installed: pip install -e '.[bench]'") from None
    train(settings, EVALUATIONS, recording=True)  # warms up
    plain: list[Run] = []
    with_callback: list[Run] = []
    for number in range(settings.rounds):
        for recording in (True, False) if number % 2 else (False, True):
            (with_callback if recording else plain).append(train(settings, settings.steps, recording))
    without, within = (statistics.median(run.seconds for run in runs) for runs in (plain, with_callback))
    share = statistics.median(run.in_callback / run.seconds for run in with_callback)
    one = statistics.median(run.in_callback / run.recorded for run in with_callback)
    last = with_callback[-1]
    print(f"a run of {settings.steps} steps: {without:.1f} s; with the callback: {within:.1f} s")
    print(f"difference: {100 * (within / without - 1):+.2f} % of the run, the noise of the machine included")
    print(f"spent in the callback: {100 * share:.2f} % of the run (limit {SHARE:.0%})")
    print(f"recordings: {last.recorded} made, {last.left_out} left out; one takes {1000 * one:.0f} ms")
    print(f"the first and the last alone are below {SHARE:.0%} of runs longer than {2 * one / SHARE:.0f} s")


def train(settings: CallbackCostSettings, steps: int, recording: bool) -> Run:
    """Train for some steps, with the callback or without it."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        PreTrainedTokenizerFast,
        PrinterCallback,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    from attention_maps.hugging_face import AttentionCallback

    texts = [row["source"] for row in rows("sentences", 2000, seed=9)]
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=1000, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>")
    ids = [token for text in texts for token in tokenizer(text)["input_ids"]]
    blocks = [ids[start : start + LENGTH] for start in range(0, len(ids) - LENGTH, LENGTH)]
    data = [{"input_ids": block, "labels": block} for block in blocks]
    set_seed(1)
    config = GPT2Config(
        vocab_size=1000, n_layer=settings.layers, n_head=settings.width // 64, n_embd=settings.width,
        n_positions=LENGTH, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    callback = AttentionCallback([tokenizer.decode(block) for block in blocks[:TEXTS]], tokenizer, max_tokens=LENGTH)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=BATCH, eval_strategy="steps",
            eval_steps=steps // EVALUATIONS, save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False,
        )  # fmt: skip
        trainer: Any = Trainer(
            GPT2LMHeadModel(config),
            arguments,
            train_dataset=data,
            eval_dataset=data[:BATCH],
            callbacks=[callback] if recording else [],
        )
        trainer.remove_callback(PrinterCallback)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        return Run(seconds, callback.seconds, len(store.steps(Path(folder))), len(callback.left_out))
