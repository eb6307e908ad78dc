"""Select one map of a recording by sample, kind, layer, head and row labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attention_maps.draw.labels import printable
from attention_maps.record.recording import NAMES, Kind, Recording, Rows, Sample, Tokens, TokenWeight


@dataclass(frozen=True)
class ChosenMap:
    """One map of a recording, with all defaults resolved; created by `choose`."""

    recording: Recording
    title: str
    """Display name of the recording."""
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
        """Attention weights [Q,K] float32; with rows=predicts, without a last row whose next token is unknown."""
        weights = self.recording.map(self.sample, self.kind, self.layer, self.head)
        return weights[: len(self.queries)]

    @property
    def queries(self) -> Tokens:
        """Tokens that label the rows."""
        return self.example.queries(self.kind, self.rows)

    @property
    def keys(self) -> Tokens:
        """Tokens that label the columns."""
        return self.example.keys(self.kind)

    @property
    def subject(self) -> str:
        """Title of the map: kind, layer and head."""
        heads = len(self.example.weights[self.kind, self.layer])
        which = f"mean of {heads} heads" if self.head is None else f"head {self.head} (of 0–{heads - 1})"
        return f"{NAMES[self.kind]} · layer {self.layer} (of 0–{self.example.layers(self.kind) - 1}) · {which}"

    @property
    def origin(self) -> str:
        """Subtitle of the map: recording, sample and mean loss per token."""
        name = f" ({self.example.name})" if self.example.name else ""
        parts = [self.title, f"sample {self.sample}{name}"]
        if self.example.losses:
            parts.append(f"{np.mean(self.example.losses):.2f} nats per token")
        if self.example.truncated:
            parts.append("truncated")
        return printable(" · ".join(parts))

    def weight(self, query: range, key: range) -> float:
        """Attention weight from the query tokens to the key tokens."""
        return self.recording.weight(query, key, **self._place)

    def strongest(self, query: range | None, key: range | None) -> list[TokenWeight]:
        """All keys that `query` attends to, or all queries that attend to `key`, strongest first."""
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
    """Select a map. Defaults: cross-attention for a translation, decoder self-attention for a text; the second-to-last
    layer, whose mean over heads is the best unsupervised alignment (Garg et al. 2019); the mean over heads; rows
    labelled by the predicted token in cross-attention, by the token read otherwise.

    Raises LookupError or ValueError if the map is not recorded.
    """
    example = recording.samples[sample]
    kind = kind or ("decoder" if example.source is None else "cross")
    rows = rows or ("predicts" if kind == "cross" else "reads")
    _, layer = example.key(kind, max(example.layers(kind) - 2, 0) if layer is None else layer)
    if not len(example.queries(kind, rows)):
        raise LookupError(f"sample={sample}: this sample has no predicted tokens; use rows=reads")
    count = len(example.weights[kind, layer])
    if head is not None and head not in range(-count, count):
        raise LookupError(f"no head {head}: there are {count}, counted from 0")
    title = title or f"step {recording.step:,}"
    return ChosenMap(recording, title, sample, kind, layer, None if head is None else head % count, rows)
