"""Select one map of a recording by sample, kind, layer, head and row labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attention_maps.draw.labels import printable
from attention_maps.record.recording import (
    KINDS,
    NAMES,
    Kind,
    Recording,
    Rows,
    Sample,
    Tokens,
    TokenWeight,
    default_rows,
)


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
        """Attention weights [Q,K] float32. With rows=predicts, a last row whose next token is unknown is dropped."""
        return self.recording.map(self.sample, self.kind, self.layer, self.head)[: len(self.queries)]

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
        number, last = self.recording.layer_number(self.kind, self.layer), self.example.layers(self.kind) - 1
        place = f"of 0–{last}" if self.kind not in self.recording.layer_numbers else f"layer={self.layer} of 0–{last}"
        return f"{NAMES[self.kind]} · layer {number} ({place}) · {which}"

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
        """Return the attention weight from the query tokens to the key tokens."""
        return self.recording.weight(query, key, **self._place)

    def strongest(self, query: range | None, key: range | None) -> list[TokenWeight]:
        """Return all keys that `query` attends to, or all queries that attend to `key`, strongest first."""
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
    """Select a map. Defaults: cross-attention, else decoder, else encoder self-attention, as recorded; the
    second-to-last layer, whose mean over heads is the best unsupervised alignment (Garg et al. 2019); the mean over
    heads; the row labels of `default_rows`.

    Raises LookupError or ValueError if the map is not recorded.
    """
    example = recording.samples[sample]
    recorded: list[Kind] = [name for name in reversed(KINDS) if example.layers(name)]
    kind = kind or (recorded[0] if recorded else "decoder")
    rows = rows or default_rows(kind)
    _, layer = example.key(kind, max(example.layers(kind) - 2, 0) if layer is None else layer)
    if not len(example.queries(kind, rows)):
        raise LookupError(f"sample={sample}: this sample has no predicted tokens; use rows=reads")
    if head is not None:
        recording.map(sample, kind, layer, head)  # raises LookupError for a head that is not recorded
        head %= len(example.weights[kind, layer])
    return ChosenMap(recording, title or f"step {recording.step:,}", sample, kind, layer, head, rows)
