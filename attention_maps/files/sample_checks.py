"""Validate the samples of a recording: tokens, losses, predictions and gold links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_maps.files.json_checks import is_list, is_number_or_none, is_size, is_text, is_whole, need

KEYS = "name reads predicts source losses predictions length source_length truncated links antecedents lens".split()
"""Keys of a stored sample."""

Tokens = dict[str, list[Any]]
"""`ids`, `pieces` and `special` marks (0 or 1), lists of equal length."""


def check_sample(entry: Any, where: str) -> dict[str, Any]:
    """Validate one sample; missing optional fields become None. Raises Damaged with the prefix `where`.

    Unknown keys, which a later version may add, are dropped because they are not validated.
    """
    need(isinstance(entry, dict), f"{where} is not a JSON object")
    reads, predicts = (_tokens(entry.get(side), f"{where}, {side}") for side in ("reads", "predicts"))
    source = None if entry.get("source") is None else _tokens(entry["source"], f"{where}, source")
    rows, predicted = len(reads["ids"]), len(predicts["ids"])
    need(rows > 0 or (source is not None and not predicted), f"{where} reads no tokens")
    need(predicted in (0, rows - 1, rows), f"{where} reads {rows} tokens and predicts {predicted}")
    losses, predictions = entry.get("losses"), entry.get("predictions")
    known = is_list(losses, is_number_or_none) and len(losses) in (0, predicted)
    need(known, f"{where} needs one loss per prediction, or none")
    need(predictions == [] or _are_predictions(predictions, rows), f"{where} needs predictions for each row, or none")
    need(is_text(entry.get("name")), f"{where} has no name")
    need(is_size(entry.get("length")) and is_size(entry.get("source_length")), f"{where} has invalid lengths")
    need(type(entry.get("truncated")) is bool, f"{where} has no boolean 'truncated'")
    links = _links(entry.get("links"), source, predicted, where)
    antecedents = _antecedents(entry.get("antecedents"), {"reads": reads, "source": source}, where)
    lens = entry.get("lens")
    need(lens is None or is_list(lens, lambda layer: _are_predictions(layer, rows)), f"{where} has an invalid lens")
    checked = {"reads": reads, "predicts": predicts, "source": source, "links": links, "antecedents": antecedents}
    checked["lens"] = lens
    return {key: checked[key] if key in checked else entry[key] for key in KEYS}


def _tokens(entry: Any, where: str) -> Tokens:
    need(isinstance(entry, dict), f"{where}: there are no tokens")
    ids, pieces, special = entry.get("ids"), entry.get("pieces"), entry.get("special")
    need(is_list(ids, is_whole), f"{where}: ids must be integers")
    need(is_list(pieces, is_text), f"{where}: pieces must be strings")
    need(is_list(special, lambda mark: mark in (0, 1)), f"{where}: special marks must be 0 or 1")
    need(len(ids) == len(pieces) == len(special), f"{where}: each token needs an id, a piece and a special mark")
    return {"ids": ids, "pieces": pieces, "special": [int(mark) for mark in special]}


def _are_predictions(predictions: Any, rows: int) -> bool:
    return is_list(predictions, lambda row: is_list(row, _is_candidate)) and len(predictions) == rows


def _is_candidate(entry: Any) -> bool:
    """Whether a prediction has the form [id, piece, probability]."""
    complete = isinstance(entry, list) and len(entry) == 3
    return complete and is_whole(entry[0]) and is_text(entry[1]) and is_number_or_none(entry[2])


def _links(links: Any, source: Tokens | None, predicted: int, where: str) -> list[list[int]] | None:
    length = len(source["ids"]) if source else 0

    def is_link(link: Any) -> bool:
        pair = isinstance(link, list) and len(link) == 2
        return pair and is_whole(link[0], 0, length - 1) and is_whole(link[1], 0, predicted - 1)

    need(links is None or is_list(links, is_link), f"{where}: links must be pairs of positions in source and predicts")
    return links


def _antecedents(entry: Any, sides: Mapping[str, Tokens | None], where: str) -> dict[str, Any] | None:
    if entry is None:
        return None
    need(isinstance(entry, dict) and entry.get("side") in ("reads", "source"), f"{where}: antecedents need a side")
    tokens = sides[entry["side"]]
    length = len(tokens["ids"]) if tokens else 0

    def is_pair(pair: Any) -> bool:
        spans = is_list(pair, lambda position: is_whole(position, 0, length)) and len(pair) == 4
        return spans and pair[0] < pair[1] and pair[2] < pair[3]

    def is_mention(mention: Any) -> bool:
        if not (is_list(mention, is_whole) and len(mention) == 4):
            return False
        start, stop, _, pronoun = mention
        return 0 <= start < stop <= length and pronoun in (0, 1)

    mentions = entry.get("mentions", [])
    need(is_list(entry.get("pairs"), is_pair), f"{where}: antecedents must be pairs of spans of its tokens")
    need(is_list(mentions, is_mention), f"{where}: mentions must be spans of its tokens, with a referent and a mark")
    return {"side": entry["side"], "pairs": entry["pairs"], "mentions": mentions}
