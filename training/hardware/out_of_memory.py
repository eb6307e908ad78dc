"""Memory that runs out, on a GPU or for the CPU: one line with the settings that need less of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import UserError
from training.config import TrainConfig
from training.hardware.device import is_out_of_memory
from training.run_folder.checkpoints import left_to_go_on


@contextmanager
def advised(advice: Callable[[], str]) -> Iterator[None]:
    """Within, running out of memory raises UserError with `advice`, which is asked for only then."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        size = re.search(r"tried to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
        asked = f" ({size[1]} more were asked for)" if size else ""
        raise UserError(f"out of memory{asked}: {advice()}") from None


def training_advice(config: TrainConfig, run: Path | None = None) -> str:
    """What to change so that training needs less; with its run folder also where to go on from."""
    trainer = config.trainer
    key, size = ("trainer.batch_size", trainer.batch_size)
    if config.task == "translate":
        key, size = "data.batch_tokens", config.data.batch_tokens
    ways = [f"lower {key} (now {size}) and raise trainer.accumulate (now {trainer.accumulate}) by the same factor"]
    if not trainer.recompute:
        ways.append("set trainer.recompute=true")
    ways.append(f"choose a shorter model.context (now {config.model.context}) or a smaller model")
    return ", or ".join(ways) + (f"; {left_to_go_on(run)}" if run else "")
