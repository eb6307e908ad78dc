"""Validate the samples of a recording: tokens, losses, predictions and gold links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_maps.files.json_checks import is_list, is_number_or_none, is_text, is_whole, need

Tokens = dict[str, list[Any]]
"""`ids`, `pieces` and `special` marks (0 or 1), lists of equal length."""


def check_sample(entry: Any, where: str) -> dict[str, Any]:
    """Validate one sample; fields missing in older recordings become None. Raises Damaged with the prefix `where`.

    Unknown keys, which a later version may add, are dropped because they are not validated.
    """
    need(isinstance(entry, dict), f"{where} is not a JSON object")
    reads, predicts = (
        _tokens(entry.get("reads"), f"{where}, reads"),
        _tokens(entry.get("predicts"), f"{where}, predicts"),
    )
    source = None if entry.get("source") is None else _tokens(entry["source"], f"{where}, source")
    rows, predicted = len(reads["ids"]), len(predicts["ids"])
    need(rows > 0, f"{where} reads no tokens")
    need(rows - 1 <= predicted <= rows, f"{where} reads {rows} tokens and predicts {predicted}")
    losses, predictions = entry.get("losses"), entry.get("predictions")
    need(is_list(losses, is_number_or_none) and len(losses) == predicted, f"{where} needs one loss per prediction")
    need(is_list(predictions, _is_guesses) and len(predictions) == rows, f"{where} needs predictions for each row")
    name, length, source_length = entry.get("name"), entry.get("length"), entry.get("source_length")
    need(is_text(name), f"{where} has no name")
    need(is_whole(length, 0) and is_whole(source_length, 0), f"{where} has invalid lengths")
    need(type(entry.get("truncated")) is bool, f"{where} has no boolean 'truncated'")
    return {
        "name": name,
        "reads": reads,
        "predicts": predicts,
        "source": source,
        "losses": losses,
        "predictions": predictions,
        "length": length,
        "source_length": source_length,
        "truncated": entry["truncated"],
        "links": _links(entry.get("links"), source, predicted, where),
        "antecedents": _antecedents(entry.get("antecedents"), {"reads": reads, "source": source}, where),
    }


def _tokens(entry: Any, where: str) -> Tokens:
    need(isinstance(entry, dict), f"{where}: there are no tokens")
    ids, pieces, special = entry.get("ids"), entry.get("pieces"), entry.get("special")
    need(is_list(ids, is_whole), f"{where}: ids must be integers")
    need(is_list(pieces, is_text), f"{where}: pieces must be strings")
    need(is_list(special, lambda mark: mark in (0, 1)), f"{where}: special marks must be 0 or 1")
    need(len(ids) == len(pieces) == len(special), f"{where}: each token needs an id, a piece and a special mark")
    return {"ids": ids, "pieces": pieces, "special": [int(mark) for mark in special]}


def _is_guesses(row: Any) -> bool:
    """Whether a row of predictions has the form [[id, piece, probability], …]."""

    def is_guess(guess: Any) -> bool:
        if not isinstance(guess, list) or len(guess) != 3:
            return False
        return is_whole(guess[0]) and is_text(guess[1]) and is_number_or_none(guess[2])

    return is_list(row, is_guess)


def _links(links: Any, source: Tokens | None, predicted: int, where: str) -> list[list[int]] | None:
    length = len(source["ids"]) if source else 0

    def is_link(link: Any) -> bool:
        if not isinstance(link, list) or len(link) != 2:
            return False
        return is_whole(link[0], 0, length - 1) and is_whole(link[1], 0, predicted - 1)

    need(links is None or is_list(links, is_link), f"{where}: links must be pairs of positions in source and predicts")
    return links


def _antecedents(entry: Any, sides: Mapping[str, Tokens | None], where: str) -> dict[str, Any] | None:
    if entry is None:
        return None
    need(isinstance(entry, dict) and entry.get("side") in ("reads", "source"), f"{where}: antecedents need a side")
    tokens = sides[entry["side"]]
    length = len(tokens["ids"]) if tokens else 0

    def is_pair(pair: Any) -> bool:
        if not is_list(pair, lambda position: is_whole(position, 0, length)) or len(pair) != 4:
            return False
        return pair[0] < pair[1] and pair[2] < pair[3]

    need(is_list(entry.get("pairs"), is_pair), f"{where}: antecedents must be pairs of spans of its tokens")
    return {"side": entry["side"], "pairs": entry["pairs"]}
