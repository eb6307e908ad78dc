"""What a command asks about: from the words typed to recordings, samples, maps and tokens.

Everything that is wrong is a `UserError` saying what there is instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attention_maps.draw.labels import printable
from attention_maps.record.recording import NAMES, Kind, Recording, Rows, Sample, Tokens, TokenWeight
from configs.errors import UserError

PLACE = re.compile(r"(0|[1-9][0-9]{0,8})(?::(0|[1-9][0-9]{0,8}))?")
"""A position, or several."""


@dataclass
class MapSettings:
    """Which map."""

    step: str = "last"
    """A recorded step, `first` or `last`; or the name of a recording: `generated_00001`."""

    sample: int | Literal["all"] | None = None
    """The number of an example, or `all`. By default 0; in an .html page all."""

    kind: Kind | None = None
    """`encoder`, `decoder` or `cross`. By default `cross` of a translation, `decoder` of a text."""

    layer: int | None = None
    """Counted from 0; -1 is the last. By default the last but one, whose mean over heads aligns best."""

    head: int | Literal["mean", "all"] = "mean"
    """Counted from 0; `mean` of the heads, or `all` of them one by one."""

    rows: Rows | None = None
    """How a row of a decoder or cross map is named: by the token that it `reads` or that it `predicts`. By default what
    it predicts in `cross` maps (where a word of the translation looked for its source), what it reads in others."""


@dataclass(frozen=True)
class Question:
    """One map of a recording, with its defaults filled in."""

    recording: Recording
    title: str
    """Where the recording comes from."""
    sample: int
    kind: Kind
    layer: int
    head: int | None
    """None for the mean of all heads."""
    rows: Rows

    @property
    def chosen(self) -> Sample:
        """The sample asked about."""
        return self.recording.samples[self.sample]

    @property
    def matrix(self) -> np.ndarray:
        """The map's weights [Q,K] float32, without a last row that predicts nothing known when rows are so named."""
        weights = self.recording.map(self.sample, self.kind, self.layer, self.head)
        return weights[: len(self.queries)]

    @property
    def queries(self) -> Tokens:
        """The names of the rows."""
        return self.chosen.queries(self.kind, self.rows)

    @property
    def keys(self) -> Tokens:
        """The names of the columns."""
        return self.chosen.keys(self.kind)

    @property
    def subject(self) -> str:
        """The map in words."""
        heads = len(self.chosen.weights[self.kind, self.layer])
        which = f"mean of {heads} heads" if self.head is None else f"head {self.head} (of 0–{heads - 1})"
        return f"{NAMES[self.kind]} · layer {self.layer} (of 0–{self.chosen.layers(self.kind) - 1}) · {which}"

    @property
    def origin(self) -> str:
        """Where it comes from, and how well the model did on the sample."""
        name = f" ({self.chosen.name})" if self.chosen.name else ""
        parts = [self.title, f"sample {self.sample}{name}"]
        if self.chosen.losses:
            parts.append(f"{np.mean(self.chosen.losses):.2f} nats per token")
        if self.chosen.truncated:
            parts.append("cut to its beginning")
        return printable(" · ".join(parts))

    def weight(self, query: range, key: range) -> float:
        """How much one attends to the other."""
        return self.recording.weight(
            query, key, kind=self.kind, layer=self.layer, head=self.head, sample=self.sample, rows=self.rows
        )

    def strongest(self, query: range | None, key: range | None) -> list[TokenWeight]:
        """The keys that `query` attends to, or the queries that attend to `key`: all of them, strongest first."""
        return self.recording.strongest(
            query,
            key=key,
            kind=self.kind,
            layer=self.layer,
            head=self.head,
            sample=self.sample,
            rows=self.rows,
            top=max(len(self.queries), len(self.keys)),
        )


def questions(title: str, recording: Recording, settings: MapSettings) -> Iterator[Question]:
    """The maps that the settings ask for: one, or one for each sample and head of `all`."""
    samples = range(len(recording.samples))
    if not samples:
        raise UserError(f"{title}: this recording holds no example (attention.examples, attention.probes)")
    if settings.sample != "all":
        number = settings.sample or 0
        if number not in range(-len(samples), len(samples)):
            raise UserError(f"sample={number}: there are {len(samples)}, counted from 0")
        samples = range(number % len(samples), number % len(samples) + 1)
    for number in samples:
        sample = recording.samples[number]
        kind: Kind = settings.kind or ("decoder" if sample.source is None else "cross")
        rows: Rows = settings.rows or ("predicts" if kind == "cross" else "reads")
        try:
            layer = max(sample.layers(kind) - 2, 0) if settings.layer is None else settings.layer
            _, layer = sample.key(kind, layer)
            if not len(sample.queries(kind, rows)):
                raise LookupError(f"sample={number}: nothing is predicted in this sample; rows=reads names its rows")
            heads = _heads(settings.head, len(sample.weights[kind, layer]))
        except (LookupError, ValueError) as error:
            raise UserError(str(error.args[0])) from None
        for head in heads:
            yield Question(recording, title, number, kind, layer, head, rows)


def _heads(head: int | str, count: int) -> Sequence[int | None]:
    if isinstance(head, int):
        if head not in range(-count, count):
            raise LookupError(f"no head {head}: there are {count}, counted from 0")
        return [head % count]
    return range(count) if head == "all" else [None]


def position(text: str, tokens: Tokens) -> range:
    """The token or tokens that a text names; where no token is spelled so, `5` and `5:7` are positions."""
    try:
        return tokens.find(text)
    except LookupError as error:
        place = PLACE.fullmatch(text)
        if place is None or "is not among" not in str(error):
            raise LookupError(re.sub(r"range\((\d+), (\d+)\)", r"\1:\2", str(error))) from None
    return tokens.find(int(place[1]) if place[2] is None else range(int(place[1]), int(place[2])))
