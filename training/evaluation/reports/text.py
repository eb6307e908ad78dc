"""Report on a language model: loss, perplexity, bits per byte, and scores on the built-in stories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from configs.errors import check_finite
from data.batches.batch import IGNORED, Batch
from data.tokens.lost_characters import Losses
from data.tokens.tokenizer import Tokenizer
from data.training_data import PreparedText
from model.gpt import GPT
from training.evaluation.held_out_loss import HeldOutLoss, bits_per_byte, held_out_loss, perplexity_of
from training.evaluation.reports.bootstrap import Figure, Numbers, interval, p_value, resampled, verdict
from training.evaluation.reports.evaluated_run import Subject
from training.evaluation.reports.result import Result
from training.evaluation.reports.settings import EvaluateSettings
from training.evaluation.story_scores import story_scores
from training.run_folder.log import table

LEAST_DOCUMENTS = 100
"""With fewer documents, the bootstrap draws passages."""

PASSAGE = 1000
"""Largest size of a passage in bytes: the same text whatever the tokenizer and the context."""

SHOWN = {
    "loss": ("loss, nats per token", "{:.4f}"),
    "perplexity": ("perplexity per token", "{:.4g}"),
    "bits_per_byte": ("bits per byte", "{:.4f}"),
    "word_perplexity": ("perplexity per word", "{:.4g}"),
    "pronouns": ("pronouns: only meaning decides", "{:.1f} %"),
    "pronouns_contested": ("pronouns: more than one noun agrees", "{:.1f} %"),
    "answers": ("right answers to questions", "{:.1f} %"),
}
"""Label and number format of each score."""


@dataclass
class TokenLosses:
    """The loss of each predicted token, in the order of the text."""

    positions: list[np.ndarray] = field(default_factory=list)
    nats: list[np.ndarray] = field(default_factory=list)
    tokens: list[np.ndarray] = field(default_factory=list)

    def add(self, batch: Batch, losses: Tensor) -> None:
        """Store the losses [B, T] of a batch."""
        assert batch.rows is not None
        counted = (batch.targets != IGNORED).cpu().numpy()
        positions = batch.rows[:, None] + np.arange(counted.shape[1])
        self.positions.append(positions[counted])
        self.nats.append(losses.cpu().numpy()[counted])
        self.tokens.append(batch.targets.cpu().numpy()[counted])

    def units(self, tokenizer: Tokenizer, losses: Losses, split_bytes: int) -> Units:
        """Sum the losses over documents, or over passages if there are few documents. losses: of the split.
        split_bytes: of the whole text, whatever the tokenizer."""
        positions = np.concatenate(self.positions)
        order = positions.argsort()
        positions = positions[order] + 1  # of the predicted tokens
        nats = np.concatenate(self.nats)[order].astype(np.float64)
        tokens = np.concatenate(self.tokens)[order]
        differences, lost = np.zeros((2, positions[-1] + 1), dtype=np.int64)
        np.add.at(differences, losses.positions, losses.differences)
        np.add.at(lost, losses.positions, losses.lost)
        differences, lost = differences[positions], lost[positions]
        starts = tokens == tokenizer.start_id
        ends = starts & (differences == 0)  # not where the text spells this token
        lengths = np.where(starts, 1, tokenizer.byte_lengths[tokens]) + differences  # 1: as in `held_out_loss`
        values = [nats, np.ones_like(nats), lengths, lost]
        unit = np.cumsum(ends) - ends
        if unit[-1] + 1 >= LEAST_DOCUMENTS:
            return Units("documents", *(np.bincount(unit, sums).astype(np.float64) for sums in values))
        size = min(PASSAGE, max(50, split_bytes // LEAST_DOCUMENTS))
        return Units(f"passages of {size:,} bytes", *(passage_sums(sums, lengths, size) for sums in values))


def passage_sums(values: np.ndarray, lengths: np.ndarray, size: int) -> Numbers:
    """Sum the values of tokens over passages of `size` bytes; a token on a border is divided in proportion to its
    bytes, so that passages are the same text for every tokenizer."""
    ends, sums = np.cumsum(lengths), np.cumsum(values, dtype=np.float64)
    last = np.append(np.diff(ends) > 0, True)  # of tokens that end at the same place
    borders = np.append(np.arange(0, ends[-1], size), ends[-1])
    return np.diff(np.interp(borders, np.append(0, ends[last]), np.append(0, sums[last])))


@dataclass(frozen=True)
class Units:
    """Sums over each of the units that the bootstrap draws."""

    kind: str
    nats: Numbers
    tokens: Numbers
    bytes: Numbers
    lost: Numbers
    """Bytes that the tokenizer loses."""


@dataclass(frozen=True)
class TextScores:
    """Scores of one model on a split."""

    loss: HeldOutLoss
    units: Units
    words: int
    figures: dict[str, Figure]
    tables: list[str]
    """Scores on the built-in stories beside their baselines."""


def score_text(subject: Subject, stride: int | None, resamples: int) -> TextScores:
    """Score a language model. stride: None for the windows of the training's evaluations."""
    prepared, model, split = subject.prepared, subject.model, subject.split
    assert isinstance(prepared, PreparedText)
    assert isinstance(model, GPT)
    size = subject.config.trainer.batch_size
    batches = prepared.evaluation(split, size) if stride is None else prepared.sliding(split, size, stride)
    losses = TokenLosses()
    loss = held_out_loss(model, batches, prepared.bytes(split), prepared.lost(split), on_batch=losses.add)
    check_finite("loss", loss.per_token, subject.run.step)
    units = losses.units(prepared.tokenizer, prepared.losses[split], loss.bytes)
    words = count_words(prepared.rows(split)["text"])
    figures = text_figures(loss, units, words, resamples)
    of_stories = story_scores(model, prepared.tokenizer, prepared.gold(split), split)
    for score in of_stories:
        figures |= {name: Figure(value) for name, value in score.percent.items()}
    return TextScores(loss, units, words, figures, [score.table for score in of_stories if score.table])


def count_words(texts: Iterable[str]) -> int:
    """Count words as for WikiText-2: those between white space, and one end of line for each line."""
    return sum(len(text.split()) + text.count("\n") + (not text.endswith("\n")) for text in texts)


def text_figures(loss: HeldOutLoss, units: Units, words: int, resamples: int) -> dict[str, Figure]:
    """Return the scores with their intervals. Perplexity per word: exp(nats of the text / words of the text)."""
    values = loss.metrics() | {"word_perplexity": perplexity_of(loss.charged_nats / words)}
    if not resamples:
        return {name: Figure(value) for name, value in values.items()}
    drawn = list(resampled([units.nats, units.tokens, units.lost, units.bytes], resamples))
    bits = [bits_per_byte(nats, lost, size) for nats, _, lost, size in drawn]
    per_word = loss.bytes / words * math.log(2)
    bounds = {
        "loss": interval([nats / tokens for nats, tokens, _, _ in drawn]),
        "bits_per_byte": interval(bits),
        "word_perplexity": interval([perplexity_of(total * per_word) for total in bits]),
    }
    low, high = bounds["loss"]
    bounds["perplexity"] = perplexity_of(low), perplexity_of(high)
    return {name: Figure(value, *bounds[name]) for name, value in values.items()}


def text_report(subject: Subject, other: Subject | None, settings: EvaluateSettings) -> Result:
    """Score a language model, and compare it with another one if there is one."""
    context, stride = subject.config.model.context, settings.stride
    mine = score_text(subject, stride, settings.resamples)
    columns = {subject.label("run"): mine.figures}
    more: dict = {}
    words: list[str] = []
    if other is not None:
        theirs = score_text(other, stride, settings.resamples)
        columns[other.label("compare")] = theirs.figures
        words, more = compared(subject, other, mine, theirs, settings.resamples)
    header = [f"{subject.split}: {subject.steps}"]
    for name in columns:
        header += [name, "95 % interval"] if settings.resamples else [name]
    rows = []
    for key in mine.figures:
        label, form = SHOWN.get(key, (key, "{:.4g}"))
        cells = [label]
        for figures in columns.values():
            figure = figures.get(key)
            cells.append(form.format(figure.value) if figure else "")
            if settings.resamples:
                cells.append(bounds_of(figure, form) if figure else "")
        rows.append(cells)
    overlap = "do not overlap" if stride is None else f"start {stride} tokens apart; each predicts its last {stride}"
    lines = [
        table(header, rows),
        "",
        *(
            f"{role}: {scored.name}"
            for role, scored in (("run", subject), ("compare", other))
            if scored and role in columns
        ),
        *words,
        f"windows of {context} tokens, which {overlap}; {mine.loss.tokens:,} tokens, {mine.loss.bytes:,} bytes,"
        f" {mine.words:,} words",
        "words: separated by white space, plus one end of line per line, as for WikiText-2",
    ]
    if settings.resamples:
        few = " (few: the intervals are unreliable)" if len(mine.units.nats) < 20 else ""
        lines.append(
            f"intervals: bootstrap over {len(mine.units.nats):,} {mine.units.kind}{few},"
            f" {settings.resamples:,} resamples"
        )
    lines += [line for text in mine.tables for line in ("", text)]
    protocol = {
        "context": context,
        "stride": stride or context,
        "resamples": settings.resamples,
        "interval_units": mine.units.kind,
        "batch_size": subject.config.trainer.batch_size,
        "tokens": mine.loss.tokens,
        "bytes": mine.loss.bytes,
        "words": mine.words,
    }
    return Result(lines, protocol, mine.figures, more)


def bounds_of(figure: Figure, form: str) -> str:
    """Format the interval of a figure, if it has one."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{form.format(figure.low)} to {form.format(figure.high)}"


def paired_difference(mine: Units, theirs: Units, resamples: int) -> tuple[float, list[float]]:
    """Return by how many bits per byte `mine` is better: over all units, and over each draw of units."""
    sums = [values for units in (theirs, mine) for values in (units.nats, units.lost, units.bytes)]

    def difference(totals: Sequence[float]) -> float:
        return bits_per_byte(*totals[:3]) - bits_per_byte(*totals[3:])

    return difference([float(totals.sum()) for totals in sums]), [
        difference(totals) for totals in resampled(sums, resamples)
    ]


def compared(
    subject: Subject, other: Subject, mine: TextScores, theirs: TextScores, resamples: int
) -> tuple[list[str], dict]:
    """Compare bits per byte, which do not depend on the tokenizer, in a paired test -> (lines, entry of the file)."""
    better, differences = paired_difference(mine.units, theirs.units, resamples)
    probability = p_value(better, differences)
    low, high = interval(differences)
    lines = [
        verdict("bits per byte", subject.name, other.name, better, "bits", probability),
        f"the paired difference is {better:.4f}, 95 % interval {low:.4f} to {high:.4f}; bootstrap over the same"
        f" {mine.units.kind}",
    ]
    if subject.prepared.tokenizers[0].fingerprint != other.prepared.tokenizers[0].fingerprint:
        lines.append("the tokenizers differ: loss and perplexity per token cannot be compared, the other scores can")
    figures = {
        name: {"value": figure.value, "low": figure.low, "high": figure.high} for name, figure in theirs.figures.items()
    }
    entry = {"model": other.identity(), "scores": figures}
    entry |= {"bits_per_byte": {"better_by": better, "low": low, "high": high, "p_value": probability}}
    return lines, {"compared_with": entry}
