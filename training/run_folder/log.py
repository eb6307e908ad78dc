"""Output of a run: terminal, log.txt, TensorBoard and metrics.jsonl."""

from __future__ import annotations

import json
import math
import textwrap
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from torch.utils.tensorboard import summary

from configs.atomic_file import write_whole
from training.checkpoints.loading import resume_hint
from training.checkpoints.moved_folder import Place
from training.run_folder.append_file import GrowingFile
from training.run_folder.event_file import EventFile
from training.run_folder.terminal import print_line

METRICS = "metrics.jsonl"


class RunLog:
    """Writes the logs of one run folder. A resumed run drops curve points after `step` and evaluations after
    `evaluated_step`, so that curves do not overlap."""

    def __init__(self, run: Path, step: int, evaluated_step: int = 0) -> None:
        self.run, self.place = run, Place(run)
        self.evaluations = truncate_metrics(run / METRICS, evaluated_step)
        """Lines of metrics.jsonl."""
        self.text = GrowingFile(run / "log.txt", self.place)
        self.lines = GrowingFile(run / METRICS, self.place, durable=True)
        # TensorBoard draws one curve per run into a chart: the validation loss is the run `NAME/val`, as in Keras, to
        # share a chart with the training loss.
        self.events = EventFile(run, step, self.place)
        self.validation = EventFile(run / "val", step, self.place)
        self.held: list[tuple[EventFile, Summary, int]] | None = None

    def follow(self, run: Path) -> None:
        """Write to the run folder under its new name."""
        for file in (self.text, self.lines, self.events.file, self.validation.file):
            file.path = run / file.path.relative_to(self.run)
        self.run = self.place.run = run

    def line(self, message: str) -> None:
        """Write one line to the terminal and log.txt."""
        print_line(message)
        self.detail(message)

    def detail(self, text: str) -> None:
        """Write text to log.txt only, e.g. tables that would clutter the terminal."""
        self.text.write(f"{text}\n".encode(errors="surrogateescape"))

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Run optional work: log any exception as one warning, with the traceback in log.txt, and continue."""
        try:
            yield
        except Exception as error:
            reason = textwrap.shorten(f"{type(error).__name__}: {error}", 200)
            self.line(f"warning: {what} skipped after an error ({reason}); see log.txt for details")
            self.detail(traceback.format_exc())

    def scalars(self, values: Mapping[str, float | None], step: int) -> None:
        """Write points of TensorBoard curves, except None. `train/loss` and `val/loss` share the chart `loss`."""
        curves = {"loss" if tag == "train/loss" else tag: value for tag, value in values.items() if value is not None}
        validation_loss = curves.pop("val/loss", None)
        self.show(Summary(value=[summary.scalar(tag, value).value[0] for tag, value in curves.items()]), step)
        if validation_loss is not None:
            self.show(summary.scalar("loss", validation_loss), step, self.validation)

    @contextmanager
    def whole_or_nothing(self) -> Iterator[None]:
        """Buffer TensorBoard output until the end of the context and discard it after an exception: otherwise work
        repeated after a resume would appear twice."""
        assert self.held is None, "contexts do not nest"
        held: list[tuple[EventFile, Summary, int]] = []
        self.held = held
        try:
            yield
        finally:
            self.held = None
        for events, values, step in held:
            events.add_summary(values, step)

    def show(self, values: Summary, step: int, events: EventFile | None = None) -> None:
        """Write a summary to TensorBoard, immediately or at the end of `whole_or_nothing`."""
        events = events or self.events
        if self.held is None:
            events.add_summary(values, step)
        else:
            self.held.append((events, values, step))

    def metrics(self, record: dict) -> None:
        """Write one line of metrics.jsonl and flush it: an evaluation recorded in a checkpoint is not repeated."""
        self.evaluations += 1
        self.lines.write(f"{json.dumps(finite(record), ensure_ascii=False, allow_nan=False)}\n".encode())

    def settings(self, name: str, values: dict[str, float | str]) -> None:
        """Write the settings to TensorBoard's HParams tab, which also lists the last point of every curve."""
        texts = {key: as_unicode(value) if isinstance(value, str) else value for key, value in values.items()}
        self.show(hparams_pb(texts, trial_id=as_unicode(name)), 0)

    def markdown(self, tag: str, text: str, step: int) -> None:
        """Write to TensorBoard's Text tab, which sorts by tag: about, results, samples, settings, tables, versions."""
        self.show(summary.text(tag, as_unicode(text)), step)

    def table(self, name: str, text: str, step: int) -> Path:
        """Write a table that is too long for the terminal to `<name>.txt` and TensorBoard's Text tab -> the file."""
        path = self.run / f"{name}.txt"
        write_whole(path, f"{text}\n".encode())
        self.markdown(f"tables/{name}", text, step)
        return path

    def image(self, tag: str, pixels: np.ndarray, step: int) -> None:
        """Write an image [height, width, 3] uint8 to TensorBoard's Images tab."""
        self.show(summary.image(tag, pixels, dataformats="HWC"), step)

    def close(self) -> None:
        """Make a final attempt to write data that a full disk has rejected."""
        for file in (self.lines, self.events, self.validation, self.text):
            file.close()
        self.place.close()


class NoLog(RunLog):
    """The log of a process that writes nothing, because another one does."""

    def __init__(self, run: Path) -> None:
        self.run, self.held = run, None

    def line(self, message: str) -> None:
        """Write nothing."""

    def detail(self, text: str) -> None:
        """Write nothing."""

    def scalars(self, values: Mapping[str, float | None], step: int) -> None:
        """Write nothing."""

    def show(self, values: Summary, step: int, events: EventFile | None = None) -> None:
        """Write nothing."""

    def metrics(self, record: dict) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def opened_log(run: Path, step: int, evaluated_step: int, writes: bool = True) -> Iterator[RunLog]:
    """Open the log of a run and close it at the end; Ctrl-C is logged as one line."""
    log = RunLog(run, step, evaluated_step) if writes else NoLog(run)
    try:
        yield log
    except KeyboardInterrupt:
        log.line(f"interrupted; {resume_hint(run)}")
        raise
    finally:
        log.close()


def truncate_metrics(path: Path, step: int) -> int:
    """Drop lines after `step` and lines truncated by a kill or a power failure -> the number of kept lines."""
    if not path.exists():
        return 0
    content, lines_kept = path.read_bytes(), []
    for line in content.splitlines():
        with suppress(ValueError, TypeError, KeyError):  # not JSON, or not a metrics record
            if json.loads(line)["step"] <= step:
                lines_kept.append(line + b"\n")
    if (whole := b"".join(lines_kept)) != content:
        write_whole(path, whole)
    return len(lines_kept)


def finite(record: dict) -> dict:
    """Replace infinite and NaN values by None, since JSON cannot represent them."""
    infinite = {key for key, value in record.items() if isinstance(value, float) and not math.isfinite(value)}
    return record | dict.fromkeys(infinite)


def as_unicode(text: str) -> str:
    """Convert text to valid UTF-8 for TensorBoard: undecodable bytes of a path become replacement characters."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def code_block(text: str, width: int | None = None) -> str:
    """Format text as a Markdown code block; with `width`, longer lines are wrapped."""
    lines = text.splitlines()
    if width is not None:
        wrap = textwrap.TextWrapper(width, replace_whitespace=False, drop_whitespace=False).wrap
        lines = [part for line in lines for part in wrap(line) or [""]]
    return "\n".join("    " + line for line in lines)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table with aligned columns; pipes and line breaks inside cells are escaped."""
    lines = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in lines
    )


def wrapped(lines: list[str]) -> list[str]:
    """Wrap lines to 100 columns, except those of tables."""
    parts = [part for line in lines for part in line.split("\n")]
    wrap = textwrap.TextWrapper(100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False).wrap
    return [piece for part in parts for piece in ([part] if part.startswith("|") else wrap(part) or [""])]


def short(number: float) -> str:
    """Format 12345 as 12.3k and 1234567 as 1.23M."""
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Format seconds as 1:23 or 2:03:04."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
