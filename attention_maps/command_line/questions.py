"""Resolve the settings of a command to maps and tokens. Errors list what is available."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from attention_maps.base.errors import UserError
from attention_maps.record.chosen_map import ChosenMap, choose
from attention_maps.record.recording import Kind, Recording, Rows, Tokens

PLACE = re.compile(r"(0|[1-9][0-9]{0,8})(?::(0|[1-9][0-9]{0,8}))?")
"""A position, `5`, or a range of positions, `5:7`."""


@dataclass
class MapSettings:
    """Settings that select a map."""

    step: str = "last"
    """A recorded step, `first` or `last`; or the name of a recording, such as `generated_00001`."""

    sample: int | Literal["all"] | None = None
    """Index of an example, or `all`. Default: 0; all in an .html page."""

    kind: Kind | None = None
    """`encoder`, `decoder` or `cross`. Default: `cross` if such maps are recorded, else `decoder`, else `encoder`."""

    layer: int | Literal["all"] | None = None
    """Counted from 0; -1 is the last; or `all`. Default: the second-to-last, whose mean over heads aligns best."""

    head: int | Literal["mean", "all"] = "mean"
    """Counted from 0; `mean` for the mean over heads, or `all` for every head separately."""

    rows: Rows | None = None
    """Label of a row in a decoder or cross map: the token that the row `reads` or `predicts`. Default: `predicts` in
    `cross` maps (the weights while that target token is predicted), `reads` in others."""


def questions(title: str, recording: Recording, settings: MapSettings) -> Iterator[ChosenMap]:
    """Yield the selected maps: a single one, or one per sample, layer and head if these are `all`."""
    samples = range(len(recording.samples))
    if not samples:
        raise UserError(f"{title}: this recording contains no examples (set attention.examples or attention.probes)")
    if settings.sample != "all":
        number = settings.sample or 0
        if number not in range(-len(samples), len(samples)):
            raise UserError(f"sample={number}: there are {len(samples)}, counted from 0")
        samples = range(number % len(samples), number % len(samples) + 1)
    head = settings.head if isinstance(settings.head, int) else None
    for number in samples:
        try:
            first = choose(
                recording,
                number,
                kind=settings.kind,
                layer=None if settings.layer == "all" else settings.layer,
                head=head,
                rows=settings.rows,
                title=title,
            )
        except (LookupError, ValueError) as error:
            raise UserError(str(error.args[0])) from None
        layers = range(first.example.layers(first.kind)) if settings.layer == "all" else [first.layer]
        heads = range(len(first.example.weights[first.kind, first.layer])) if settings.head == "all" else [first.head]
        yield from (replace(first, layer=layer, head=head) for layer in layers for head in heads)


def position(text: str, tokens: Tokens) -> range:
    """Return the positions of the tokens spelled `text`; if there are none, `5` and `5:7` are parsed as positions."""
    try:
        return tokens.find(text)
    except LookupError as error:
        place = PLACE.fullmatch(text)
        if place is None or "is not among" not in str(error):
            raise LookupError(re.sub(r"range\((\d+), (\d+)\)", r"\1:\2", str(error))) from None
    return tokens.find(int(place[1]) if place[2] is None else range(int(place[1]), int(place[2])))
