"""One map chosen from a recording: of which sample, kind, layer and head, and how its rows are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attention_maps.draw.labels import printable
from attention_maps.record.recording import NAMES, Kind, Recording, Rows, Sample, Tokens, TokenWeight


@dataclass(frozen=True)
class ChosenMap:
    """One map of a recording, with its defaults filled in; made by `choose`."""

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
    def example(self) -> Sample:
        """The sample that the map belongs to."""
        return self.recording.samples[self.sample]

    @property
    def matrix(self) -> np.ndarray:
        """The map's weights [Q,K] float32, without a last row that predicts nothing known when rows are so named."""
        weights = self.recording.map(self.sample, self.kind, self.layer, self.head)
        return weights[: len(self.queries)]

    @property
    def queries(self) -> Tokens:
        """The names of the rows."""
        return self.example.queries(self.kind, self.rows)

    @property
    def keys(self) -> Tokens:
        """The names of the columns."""
        return self.example.keys(self.kind)

    @property
    def subject(self) -> str:
        """The map in words."""
        heads = len(self.example.weights[self.kind, self.layer])
        which = f"mean of {heads} heads" if self.head is None else f"head {self.head} (of 0–{heads - 1})"
        return f"{NAMES[self.kind]} · layer {self.layer} (of 0–{self.example.layers(self.kind) - 1}) · {which}"

    @property
    def origin(self) -> str:
        """Where it comes from, and how well the model did on the sample."""
        name = f" ({self.example.name})" if self.example.name else ""
        parts = [self.title, f"sample {self.sample}{name}"]
        if self.example.losses:
            parts.append(f"{np.mean(self.example.losses):.2f} nats per token")
        if self.example.truncated:
            parts.append("cut to its beginning")
        return printable(" · ".join(parts))

    def weight(self, query: range, key: range) -> float:
        """How much one attends to the other."""
        return self.recording.weight(query, key, **self._place)

    def strongest(self, query: range | None, key: range | None) -> list[TokenWeight]:
        """The keys that `query` attends to, or the queries that attend to `key`: all of them, strongest first."""
        return self.recording.strongest(query, key=key, top=max(self.matrix.shape), **self._place)

    @property
    def _place(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("sample", "kind", "layer", "head", "rows")}


def choose(
    recording: Recording,
    sample: int = 0,
    *,
    kind: Kind | None = None,
    layer: int | None = None,
    head: int | None = None,
    rows: Rows | None = None,
    title: str = "",
) -> ChosenMap:
    """A map with defaults for what is None: of a translation the cross-attention, of a text the decoder's; the last
    layer but one, whose mean over heads is the best alignment without supervision (Garg et al. 2019); the mean of the
    heads; rows named by what they predict in cross-attention, by what they read elsewhere.

    Raises LookupError or ValueError for what is not recorded.
    """
    example = recording.samples[sample]
    kind = kind or ("decoder" if example.source is None else "cross")
    rows = rows or ("predicts" if kind == "cross" else "reads")
    _, layer = example.key(kind, max(example.layers(kind) - 2, 0) if layer is None else layer)
    if not len(example.queries(kind, rows)):
        raise LookupError(f"sample={sample}: nothing is predicted in this sample; rows=reads names its rows")
    count = len(example.weights[kind, layer])
    if head is not None and head not in range(-count, count):
        raise LookupError(f"no head {head}: there are {count}, counted from 0")
    title = title or f"step {recording.step:,}"
    return ChosenMap(recording, title, sample, kind, layer, None if head is None else head % count, rows)
