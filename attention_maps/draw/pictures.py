"""Pictures of a recording: which map, how it is labelled, and a title that says where it comes from."""

from __future__ import annotations

import numpy as np

from attention_maps.draw.heat_map import heat_map, small_multiples
from attention_maps.record.recording import NAMES, Kind, Recording, Rows, Sample


def picture(
    recording: Recording,
    sample: int = 0,
    *,
    kind: Kind | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> np.ndarray:
    """One labelled map as an RGB image [h,w,3] uint8: of one head, or of the heads' mean when `head` is None.

    A decoder's rows carry both names: what each reads on the left, what it predicts on the right. By default the map
    that says most at a glance: of a translation the cross-attention of the last layer but one, whose mean over heads
    is the best alignment without supervision (Garg et al. 2019); of a text the decoder's.
    """
    chosen = recording.samples[sample]
    kind = kind or _telling(chosen)
    layer = chosen.key(kind, max(chosen.layers(kind) - 2, 0) if layer is None else layer)[1]
    count = len(recording.maps(sample, kind, layer))
    which = f"mean of {count} heads" if head is None else f"head {head % count} (of 0–{count - 1})"
    return heat_map(
        recording.map(sample, kind, layer, head),
        chosen.queries(kind).pieces,
        chosen.keys(kind).pieces,
        f"{_title(chosen, kind, layer)} · {which}",
        subtitle=_subtitle(recording, chosen),
        row_name="reads",
        column_name="attends to",
        right=() if kind == "encoder" else chosen.predicts.pieces,
        right_name="predicts",
        causal=kind == "decoder",
    )


def heads(
    recording: Recording,
    sample: int = 0,
    *,
    kind: Kind | None = None,
    layer: int | None = None,
    rows: Rows | None = None,
) -> np.ndarray:
    """All heads of one layer side by side after their mean, on one colour scale, as an RGB image [h,w,3] uint8.

    There is room for one name per row: by default what it predicts for cross-attention, what it reads otherwise.
    """
    chosen = recording.samples[sample]
    kind = kind or _telling(chosen)
    layer = chosen.key(kind, max(chosen.layers(kind) - 2, 0) if layer is None else layer)[1]
    rows = rows or ("predicts" if kind == "cross" else "reads")
    weights = recording.maps(sample, kind, layer)  # [H,Q,K]
    labels = chosen.queries(kind, rows).pieces
    panels = {f"mean of {len(weights)} heads": weights.mean(axis=0)}
    panels |= {f"head {number}": matrix for number, matrix in enumerate(weights)}
    return small_multiples(
        panels if len(weights) > 1 else {"": weights[0]},
        [*labels, *[""] * (weights.shape[1] - len(labels))],
        chosen.keys(kind).pieces,
        _title(chosen, kind, layer),
        subtitle=_subtitle(recording, chosen),
        row_name=rows,
        column_name="attends to",
        causal=kind == "decoder",
    )


def _telling(sample: Sample) -> Kind:
    return "decoder" if sample.source is None else "cross"


def _title(sample: Sample, kind: Kind, layer: int) -> str:
    return f"{NAMES[kind]} · layer {layer} (of 0–{sample.layers(kind) - 1})"


def _subtitle(recording: Recording, sample: Sample) -> str:
    parts = [f"step {recording.step:,}", sample.name]
    if sample.losses:
        parts.append(f"{sum(sample.losses) / len(sample.losses):.2f} nats per token")
    if sample.truncated:
        shown = len(sample.reads) + len(sample.source or ())
        parts.append(f"cut: {shown} of {sample.length + sample.source_length} tokens")
    return " · ".join(part for part in parts if part)
