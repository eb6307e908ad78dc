"""`python -m attention_maps show`: print a map as a table, or the attention weight between two tokens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attention_maps.base.errors import UserError
from attention_maps.command_line.loading import also, existing_run, load
from attention_maps.command_line.questions import MapSettings, position, questions
from attention_maps.draw.labels import fitted, visible, width
from attention_maps.record.chosen_map import ChosenMap
from attention_maps.record.recording import NAMES, Tokens, TokenWeight

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
    wrong = [f"top={settings.top}: must be at least 1"] if settings.top < 1 else []
    with also([*problems, *wrong]):
        _, title, recording = load(existing_run(run), settings.step)
        pair = settings.query is not None and settings.key is not None
        if pair and settings.layer == "all" and settings.head == "mean":
            settings = replace(settings, head="all")  # a mean of each layer would hide the head that links the pair
        asked = list(questions(title, recording, settings))
    if pair and "all" in (settings.layer, settings.head):
        print("\n\n".join("\n".join(ranked(group, settings)) for group in _by_sample(asked)))
        return
    dim = _dim if sys.stdout.isatty() and "NO_COLOR" not in os.environ else str
    whole = settings.query is None and settings.key is None
    answers = []
    for question in asked:
        lines = table(question, settings.top, settings.special, dim) if whole else answer(question, settings)
        answers.append("\n".join([question.subject, question.origin + "\n", *lines]))
    print("\n\n".join(answers))


def ranked(asked: Sequence[ChosenMap], settings: ShowSettings) -> Iterator[str]:
    """Yield one line per head with the weight from the query to the key, the largest first, below a heading."""
    first = asked[0]
    places, names = _places(first, settings)
    yield f"{NAMES[first.kind]} · {len(asked)} heads, the largest weight first"
    yield first.origin + "\n"
    yield f"{names['query']} attends to {names['key']}"
    weights = [(question.weight(places["query"], places["key"]), question) for question in asked]
    for weight, question in sorted(weights, key=lambda row: -np.nan_to_num(row[0])):
        head = "mean" if question.head is None else f"head {question.head}"
        layer = question.recording.layer_number(question.kind, question.layer)
        yield f"  layer {layer:>2} · {head:<7} {bar(weight)} {percent(weight)}"


def _by_sample(asked: Sequence[ChosenMap]) -> list[list[ChosenMap]]:
    groups: dict[int, list[ChosenMap]] = {}
    for question in asked:
        groups.setdefault(question.sample, []).append(question)
    return list(groups.values())


def answer(question: ChosenMap, settings: ShowSettings) -> list[str]:
    """Return the attention weight from the query to the key, or the strongest links of the given token, as lines."""
    places, names = _places(question, settings)
    if len(places) == 2:
        return [f"{names['query']} attends to {names['key']}: {percent(question.weight(**places)).strip()}"]
    others = question.keys if "query" in places else question.queries
    links = question.strongest(places.get("query"), places.get("key"))
    links = [link for link in links if settings.special or not others.special[link.position]][: settings.top]
    heading = f"{names['query']} attends to" if "query" in names else f"{names['key']} is attended to by"
    return [heading, *_listed(links, others)]


def _places(question: ChosenMap, settings: ShowSettings) -> tuple[dict[str, range], dict[str, str]]:
    """Return the positions and the names of the given tokens, by `query` and `key`."""
    problems = []
    places: dict[str, range] = {}
    names: dict[str, str] = {}
    for side, tokens in (("query", question.queries), ("key", question.keys)):
        text = getattr(settings, side)
        if text is None:
            continue
        try:
            places[side] = position(text, tokens)
        except LookupError as error:
            problems.append(f"{side}={text}: {error}")
            continue
        names[side] = "".join(tokens.pieces[place] for place in places[side])
        names[side] = f"'{visible(names[side]).replace('▁', ' ').strip()}'"
    if problems:
        raise UserError(*problems)
    return places, names


def table(question: ChosenMap, top: int, special: bool, dim: Callable[[str], str] = str) -> Iterator[str]:
    """Yield one line per query: its position and token, and its `top` strongest keys, with a bar for the first."""
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
    """Format an attention weight as a right-aligned percentage."""
    return f"{100 * weight:>3.0f} %"


def bar(weight: float) -> str:
    """Draw an attention weight as a bar of fixed width, with a resolution of 1/8 character."""
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
