"""Convert out-of-memory errors of GPU or CPU to one line that lists the settings to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from configs.errors import UserError
from training.config import TrainConfig

_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED", "bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator failed. All but Python's are recognised by their message, so that torch need not be imported
    (the message of its own exception, `torch.OutOfMemoryError`, says "out of memory" too)."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in _WORDS)


@contextmanager
def advised(advice: Callable[[], str]) -> Iterator[None]:
    """Convert an out-of-memory error inside the context to UserError with `advice()`, which is called only then."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        size = re.search(r"tried to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
        asked = f" (tried to allocate {size[1]})" if size else ""
        raise UserError(f"out of memory{asked}: {advice()}") from None


def training_advice(config: TrainConfig) -> str:
    """Return the setting changes that reduce the memory of training."""
    trainer = config.trainer
    key, size = "trainer.batch_size", trainer.batch_size
    if config.task == "translate":
        key, size = "data.batch_tokens", config.data.batch_tokens
    ways = [f"lower {key} (now {size}) and raise trainer.accumulate (now {trainer.accumulate}) by the same factor"]
    if not trainer.recompute:
        ways.append("set trainer.recompute=true")
    ways.append(f"use a shorter model.context (now {config.model.context}) or a smaller model")
    return ", or ".join(ways)
