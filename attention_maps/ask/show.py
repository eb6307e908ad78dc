"""`python -m attention_maps show`: print a map as a table, or the attention weight between two tokens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attention_maps.ask.loading import also, existing_run, load
from attention_maps.ask.questions import MapSettings, position, questions
from attention_maps.draw.labels import fitted, visible, width
from attention_maps.record.chosen_map import ChosenMap
from attention_maps.record.recording import Tokens, TokenWeight
from configs.errors import UserError

WIDEST = 16
"""Maximum width of a token, in terminal columns."""

BAR = 10
"""Width of a bar for a weight of 1, in terminal columns."""


@dataclass
class ShowSettings(MapSettings):
    """Settings of `show`."""

    query: str | None = None
    """The query token: a word of one or several pieces; or a position, 5, or a range, 5:7."""

    key: str | None = None
    """The key token. With `query`: print one weight; alone: print the tokens that attend to the key most."""

    top: int = 3
    """Number of strongest tokens shown."""

    special: bool = True
    """Show special tokens (bos, eos). Hiding them does not renormalise the percentages."""


def show(run: str, settings: ShowSettings, problems: Sequence[str]) -> None:
    """Print a map as a table, the weight from a query to a key, or the strongest links of one token."""
    found = list(problems)
    if settings.top < 1:
        found.append(f"top={settings.top}: must be at least 1")
    with also(found):
        _, title, recording = load(existing_run(run), settings.step)
        asked = list(questions(title, recording, settings))
    dim = _dim if sys.stdout.isatty() and "NO_COLOR" not in os.environ else str
    answers = (
        [
            question.subject,
            question.origin + "\n",
            *(
                table(question, settings.top, settings.special, dim)
                if settings.query is None and settings.key is None
                else answer(question, settings)
            ),
        ]
        for question in asked
    )
    print("\n\n".join("\n".join(lines) for lines in answers))


def answer(question: ChosenMap, settings: ShowSettings) -> list[str]:
    """Attention weight from the query to the key, or the strongest links of the given token, as lines of text."""
    problems = []
    places: dict[str, range] = {}
    for side, tokens in (("query", question.queries), ("key", question.keys)):
        text = getattr(settings, side)
        try:
            places |= {} if text is None else {side: position(text, tokens)}
        except LookupError as error:
            problems.append(f"{side}={text}: {error}")
    if problems:
        raise UserError(*problems)
    names = {
        side: "'" + visible("".join(tokens.pieces[place] for place in places[side])).replace("▁", " ").strip() + "'"
        for side, tokens in (("query", question.queries), ("key", question.keys))
        if side in places
    }
    if len(places) == 2:
        return [f"{names['query']} attends {names['key']}: {percent(question.weight(**places)).strip()}"]
    side, others = ("query", question.keys) if "query" in places else ("key", question.queries)
    links = question.strongest(places.get("query"), places.get("key"))
    links = [link for link in links if settings.special or not others.special[link.position]][: settings.top]
    heading = f"{names[side]} attends to" if side == "query" else f"{names[side]} is attended to by"
    return [heading, *_listed(links, others)]


def table(question: ChosenMap, top: int, special: bool, dim: Callable[[str], str] = str) -> Iterator[str]:
    """One line per query: its position and token, and its `top` strongest keys, with a bar for the first."""
    queries, keys = question.queries, question.keys
    keep = [column for column in range(len(keys)) if special or not keys.special[column]]
    matrix = question.matrix[:, keep]  # [Q,K]
    order = np.argsort(-matrix, axis=1, kind="stable")[:, :top]
    rows = [[(keep[column], matrix[row, column]) for column in order[row]] for row in range(len(queries))]
    left = max(len(question.rows), _columns(queries, range(len(queries))))
    across = [_columns(keys, [links[rank][0] for links in rows]) for rank in range(order.shape[1])]
    yield f"{'':>5}{fitted(question.rows, left)}   attends to".rstrip()
    for row, links in enumerate(rows):
        cells = [
            _name(keys, column, across[rank], dim) + (f" {bar(weight)} " if rank == 0 else " ") + percent(weight)
            for rank, (column, weight) in enumerate(links)
            if weight != 0
        ]
        yield f"{row:>3}  {_name(queries, row, left, dim)}   " + "   ".join(cells)


def percent(weight: float) -> str:
    """Attention weight as a right-aligned percentage."""
    return f"{100 * weight:>3.0f} %"


def bar(weight: float) -> str:
    """Attention weight as a bar of fixed width, with a resolution of 1/8 character."""
    eighths = round(min(max(weight, 0), 1) * BAR * 8) if weight == weight else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[rest] * (rest > 0)).ljust(BAR)


def _listed(links: Sequence[TokenWeight], tokens: Tokens) -> Iterator[str]:
    columns = _columns(tokens, [link.position for link in links])
    for link in links:
        yield f"{link.position:>3}  {_name(tokens, link.position, columns)} {bar(link.weight)} {percent(link.weight)}"
    if not links:
        yield "  nothing"


def _columns(tokens: Tokens, positions: Sequence[int]) -> int:
    return min(WIDEST, max((width(visible(tokens.pieces[position])) for position in positions), default=0))


def _name(tokens: Tokens, position: int, columns: int, dim: Callable[[str], str] = str) -> str:
    text = fitted(visible(tokens.pieces[position]), columns)
    return dim(text) if tokens.special[position] else text


def _dim(text: str) -> str:
    return f"\033[2m{text}\033[22m"
