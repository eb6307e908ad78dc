"""The maps and tokens that a command's settings name. Raises UserError, naming what there is instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from attention_maps.record.chosen_map import ChosenMap, choose
from attention_maps.record.recording import Kind, Recording, Rows, Tokens
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


def questions(title: str, recording: Recording, settings: MapSettings) -> Iterator[ChosenMap]:
    """The maps that the settings ask for: one, or one for each sample and head of `all`."""
    samples = range(len(recording.samples))
    if not samples:
        raise UserError(f"{title}: this recording holds no example (attention.examples, attention.probes)")
    if settings.sample != "all":
        number = settings.sample or 0
        if number not in range(-len(samples), len(samples)):
            raise UserError(f"sample={number}: there are {len(samples)}, counted from 0")
        samples = range(number % len(samples), number % len(samples) + 1)
    head = settings.head if isinstance(settings.head, int) else None
    for number in samples:
        try:
            first = choose(
                recording, number, kind=settings.kind, layer=settings.layer, head=head, rows=settings.rows, title=title
            )
        except (LookupError, ValueError) as error:
            raise UserError(str(error.args[0])) from None
        count = len(first.example.weights[first.kind, first.layer])
        yield from (replace(first, head=one) for one in range(count)) if settings.head == "all" else [first]


def position(text: str, tokens: Tokens) -> range:
    """The token or tokens that a text names; where no token is spelled so, `5` and `5:7` are positions."""
    try:
        return tokens.find(text)
    except LookupError as error:
        place = PLACE.fullmatch(text)
        if place is None or "is not among" not in str(error):
            raise LookupError(re.sub(r"range\((\d+), (\d+)\)", r"\1:\2", str(error))) from None
    return tokens.find(int(place[1]) if place[2] is None else range(int(place[1]), int(place[2])))
