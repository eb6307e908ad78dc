"""Everything a run says: the terminal and log.txt, TensorBoard, metrics.jsonl."""

from __future__ import annotations

import json
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from training.terminal import say


class RunLog:
    """Writes into one run folder.

    Going on with a run drops the curves after `step` and the evaluations after `evaluated_step`, so that they join without a fold.
    """

    def __init__(self, run: Path, step: int, evaluated_step: int = 0) -> None:
        self.metrics_path = run / "metrics.jsonl"
        if step:
            truncate_metrics(self.metrics_path, evaluated_step)
        self.text = (run / "log.txt").open("a", encoding="utf-8", errors="surrogateescape")
        self.writer = SummaryWriter(str(run), purge_step=step + 1 if step else None, flush_secs=10)
        self.held: list[Callable[[], None]] | None = None

    def line(self, message: str) -> None:
        """One line on the terminal and in log.txt."""
        say(message)
        self.detail(message)

    def detail(self, text: str) -> None:
        """Text for log.txt alone: tables that would push the lines worth reading off the terminal."""
        self.text.write(text + "\n")
        self.text.flush()

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Within: what training can do without. A failure is one line, with its traceback in log.txt."""
        try:
            yield
        except Exception as error:
            reason = textwrap.shorten(f"{type(error).__name__}: {error}", 200)
            self.line(f"warning: no {what} this time ({reason}); log.txt has the details")
            self.detail(traceback.format_exc())

    def scalars(self, values: dict[str, float | None], step: int) -> None:
        """Points of TensorBoard curves; None is left out."""
        for tag, value in values.items():
            if value is not None:
                self.show(self.writer.add_scalar, tag, value, step)

    @contextmanager
    def whole_or_nothing(self) -> Iterator[None]:
        """Within: TensorBoard gets nothing until the end, and nothing at all where an exception comes first.

        What is made up for after a resume would stand there twice.
        """
        held: list[Callable[[], None]] = []
        self.held = held
        try:
            yield
        finally:
            self.held = None
        for write in held:
            write()
        self.writer.flush()

    def show(self, write: Callable[..., None], *arguments: Any, **settings: Any) -> None:
        """Write into TensorBoard, now or at the end of `whole_or_nothing`."""
        if self.held is None:
            write(*arguments, **settings)
        else:
            self.held.append(partial(write, *arguments, **settings))

    def metrics(self, record: dict) -> None:
        """One line of metrics.jsonl: written and flushed at once, so that a kill loses none."""
        with self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def markdown(self, tag: str, text: str, step: int) -> None:
        """Text for TensorBoard's Text tab."""
        self.show(self.writer.add_text, tag, text, step)

    def image(self, tag: str, pixels: np.ndarray, step: int) -> None:
        """A picture [height, width, 3] uint8 for TensorBoard's Images tab."""
        self.show(self.writer.add_image, tag, pixels, step, dataformats="HWC")

    def close(self) -> None:
        """Flush and close all files."""
        self.writer.close()
        self.text.close()


def truncate_metrics(path: Path, step: int) -> None:
    """Drop lines after `step`, and a last line that a kill cut in half."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        if record.get("step", 0) <= step:
            kept.append(line)
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    temporary.replace(path)


def code_block(text: str, width: int | None = None) -> str:
    """Text as Markdown that keeps every line as it is; with a `width`, a longer line goes on in the next."""
    lines = text.splitlines()
    if width is not None:
        wrapped = (textwrap.wrap(line, width, replace_whitespace=False, drop_whitespace=False) for line in lines)
        lines = [part for parts in wrapped for part in parts or [""]]
    return "\n".join("    " + line for line in lines)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; bars and line breaks inside cells are defused."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines
    )


def short(number: float) -> str:
    """12345 as 12.3k, 1234567 as 1.23M."""
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Seconds as 1:23 or 2:03:04."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
