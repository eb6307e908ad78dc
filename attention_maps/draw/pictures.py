"""Build the images of a recording: a selected map, all heads of its layer, and the map in TensorBoard's Images tab."""

from __future__ import annotations

from dataclasses import replace

from attention_maps.draw.heat_map import HeatMap
from attention_maps.record.chosen_map import ChosenMap, choose
from attention_maps.record.recording import Recording

IMAGES_WIDTH = 350
"""Width in pixels of images in TensorBoard's Images tab, which scales wider images without smoothing."""


def picture(chosen: ChosenMap) -> HeatMap:
    """Describe one labelled map. Decoder rows are labelled on both sides: by the token read and the token predicted."""
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
    """Lay out all heads of a layer and their mean, side by side with one colour scale."""
    count = len(chosen.example.weights[chosen.kind, chosen.layer])
    panels = {f"mean of {count} heads": replace(chosen, head=None).matrix}
    panels |= {f"head {head}": replace(chosen, head=head).matrix for head in range(count)}
    title = chosen.subject.rpartition(" · ")[0]  # without the head
    return replace(picture(chosen), panels=panels if count > 1 else {"": chosen.matrix}, title=title, right=None)


def for_images(recording: Recording) -> HeatMap:
    """Describe the default map of a recording, at the width of TensorBoard's Images tab."""
    return replace(picture(choose(recording)), page_width=IMAGES_WIDTH)
