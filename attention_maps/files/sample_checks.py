"""The samples of a recording: tokens, losses, predictions and gold links, checked so that a reader can rely on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_maps.files.json_checks import is_list, is_number_or_none, is_text, is_whole, need

Tokens = dict[str, list[Any]]
"""`ids`, `pieces` and `special` marks (0 or 1), as many of each."""


def check_sample(entry: Any, where: str) -> dict[str, Any]:
    """One sample as a recording describes it; what an older one lacks is None. Raises Damaged, naming `where`.

    Only what is known here is handed on: what a later version may add has not been checked.
    """
    need(isinstance(entry, dict), f"{where} is no JSON object")
    reads, predicts = (
        _tokens(entry.get("reads"), f"{where}, reads"),
        _tokens(entry.get("predicts"), f"{where}, predicts"),
    )
    source = None if entry.get("source") is None else _tokens(entry["source"], f"{where}, source")
    rows, predicted = len(reads["ids"]), len(predicts["ids"])
    need(rows > 0, f"{where} reads no tokens")
    need(rows - 1 <= predicted <= rows, f"{where} reads {rows} tokens and predicts {predicted}")
    losses, predictions = entry.get("losses"), entry.get("predictions")
    need(is_list(losses, is_number_or_none) and len(losses) == predicted, f"{where} needs a loss for what it predicts")
    need(is_list(predictions, _is_guesses) and len(predictions) == rows, f"{where} needs predictions for each row")
    name, length, source_length = entry.get("name"), entry.get("length"), entry.get("source_length")
    need(is_text(name), f"{where} has no name")
    need(is_whole(length, 0) and is_whole(source_length, 0), f"{where} has no proper lengths")
    need(type(entry.get("truncated")) is bool, f"{where} does not say whether it was truncated")
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
    need(is_list(ids, is_whole), f"{where}: ids must be whole numbers")
    need(is_list(pieces, is_text), f"{where}: pieces must be texts")
    need(is_list(special, lambda mark: mark in (0, 1)), f"{where}: special marks must be 0 or 1")
    need(len(ids) == len(pieces) == len(special), f"{where}: each token needs an id, a piece and a special mark")
    return {"ids": ids, "pieces": pieces, "special": [int(mark) for mark in special]}


def _is_guesses(row: Any) -> bool:
    """[[id, piece, probability], …]."""

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
