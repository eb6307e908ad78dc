"""Translate a stream of lines to standard output, in order and as early as possible."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, takewhile

from tqdm import tqdm

from configs.errors import UserError
from generation.config import TranslationConfig
from generation.engines.engine import Engine
from generation.input_warnings import SourceNotes
from generation.standard_input import up_to_failure
from generation.translation_result import Translation, cell


def translate_lines(
    engine: Engine, config: TranslationConfig, lines: Iterable[str | None], count: int | None, notes: SourceNotes
) -> Iterator[tuple[str, Translation]]:
    """Print translations of lines as they arrive, including empty lines; yield each line and its best translation.

    lines: None before a wait; all preceding lines are printed first. count: number of lines, if known. Each line is
    printed as soon as it and all preceding lines are ready: an interruption loses no finished translation. White space
    around a line is stripped, as in training sentences. Raises UserError at the end if `lines` could not be read.
    """
    failures: list[UserError] = []
    waiting: deque[str] = deque()

    def portions() -> Iterator[list[str]]:
        stripped = (line and line.strip() for line in up_to_failure(lines, failures))
        for portion in split_stream(stripped, config.batch_tokens):
            notes.check(portion)
            waiting.extend(portion)
            yield portion

    def translations() -> Generator[list[Translation], None, None]:
        arriving = portions()
        for first in filter(None, arriving):
            until_pause = chain([first], takewhile(bool, arriving))
            with closing(engine.translate(until_pause)) as results:
                yield from in_order(results)

    # If the translations appear on the terminal, they show the progress.
    hidden = True if sys.stdout.isatty() else None
    with (
        tqdm(total=count, desc="translating", unit="line", disable=hidden, delay=2) as bar,
        closing(translations()) as results,
    ):
        for number, hypotheses in enumerate(results, 1):
            print(printed(number, hypotheses, config.n_best), end="", flush=True)
            notes.check_translation(number, hypotheses[0])
            bar.update()
            yield waiting.popleft(), hypotheses[0]
    notes.close()
    if failures:
        raise failures[0]


def printed(line: int, hypotheses: list[Translation], n_best: int) -> str:
    """Format the best translation on a line of its own, or the n best with line number, rank and score, the text as a
    cell of tab-separated values."""
    if n_best == 1:
        return hypotheses[0].text + "\n"
    rows = [f"{line}\t{rank}\t{best.score:.4f}\t{cell(best.text)}\n" for rank, best in enumerate(hypotheses, 1)]
    return "".join(rows)


def in_order(results: Iterator[tuple[int, list[Translation]]]) -> Iterator[list[Translation]]:
    """Yield the results of `translate` in the order of the sentences, each as soon as all preceding ones are ready."""
    waiting: dict[int, list[Translation]] = {}
    due = 0
    for index, hypotheses in results:
        waiting[index] = hypotheses
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def split_stream(lines: Iterable[str | None], batch_tokens: int) -> Iterator[list[str]]:
    """Split a stream of lines into portions for `translate`, so that memory does not grow with the stream.

    Batches of similar length need many lines to choose from: `batch_tokens` / 2 lines fill about ten batches. The first
    portions are smaller, for early translations. A pause of the stream (None) ends a portion and adds an empty portion.
    """
    largest = max(1, batch_tokens // 2)
    size = min(64, largest)
    portion: list[str] = []
    for line in lines:
        if line is not None:
            portion.append(line)
        if portion and (line is None or len(portion) == size):
            yield portion
            portion, size = [], min(2 * size, largest)
        if line is None:
            yield []
    if portion:
        yield portion
