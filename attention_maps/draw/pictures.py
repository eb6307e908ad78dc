"""Pictures of a recording: a chosen map, all heads of its layer, and the small one for TensorBoard's Images."""

from __future__ import annotations

from dataclasses import replace

from attention_maps.draw.heat_map import HeatMap
from attention_maps.record.chosen_map import ChosenMap, choose
from attention_maps.record.recording import NAMES, Recording

IMAGES_WIDTH = 350
"""Pixels that TensorBoard's Images gives to a picture; it scales wider ones without smoothing."""


def picture(chosen: ChosenMap) -> HeatMap:
    """One labelled map. A decoder's rows carry both names: what each reads and what it predicts."""
    example, other = chosen.example, "predicts" if chosen.rows == "reads" else "reads"
    return HeatMap(
        {"": chosen.matrix},
        chosen.queries,
        chosen.keys,
        chosen.subject,
        chosen.origin,
        chosen.rows,
        "attends to",
        right=None if chosen.kind == "encoder" else getattr(example, other).first(len(chosen.queries)),
        right_name=other,
        causal=chosen.kind == "decoder",
    )


def heads(chosen: ChosenMap) -> HeatMap:
    """All heads of the layer side by side after their mean, on one colour scale."""
    count = len(chosen.example.weights[chosen.kind, chosen.layer])
    panels = {f"mean of {count} heads": replace(chosen, head=None).matrix}
    panels |= {f"head {head}": replace(chosen, head=head).matrix for head in range(count)}
    layers = chosen.example.layers(chosen.kind)
    return replace(
        picture(chosen),
        panels=panels if count > 1 else {"": chosen.matrix},
        title=f"{NAMES[chosen.kind]} · layer {chosen.layer} (of 0–{layers - 1})",
        right=None,
    )


def for_images(recording: Recording) -> HeatMap:
    """The map that says most at a glance, as wide as TensorBoard's Images shows it."""
    return replace(picture(choose(recording)), page_width=IMAGES_WIDTH)
