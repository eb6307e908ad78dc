"""QK and OV circuits of a head for the tab: whole tables of small vocabularies, the strongest pairs of others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from configs.errors import UserError
from data.tokens.tokenizer import Tokenizer
from interpretability.circuits import TokenTable, circuits
from run import Run
from tab_answers.model_cache import Models
from tab_answers.question import CircuitQuestion
from tab_answers.replaced_outputs import heads_of
from tab_answers.run_recordings import recorded_examples

LARGEST_TABLE = 300
"""Maximum number of tokens of either side of a table that is sent as a whole."""
PAIRS, PAIRS_OF_A_TOKEN = 25, 20
"""Number of pairs listed, of all tokens and of one."""
MOST_MATCHES = 8
"""Maximum number of tokens that a text stands for."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class Side:
    """The tokens of one side that stand for text: without special tokens, single bytes and the scripts of the other
    side, with which it may share its vocabulary."""

    def __init__(self, tokenizer: Tokenizer, foreign: set[str]) -> None:
        """foreign: scripts, as `scripts_of` returns them."""
        ids = [token for token in range(tokenizer.vocab_size) if token not in tokenizer.special_ids]
        pairs = zip(ids, tokenizer.pieces(ids), strict=True)
        tokens = [
            (token, piece) for token, piece in pairs if not BYTE.fullmatch(piece) and not scripts_of(piece) & foreign
        ]
        self.ids = torch.tensor([token for token, _ in tokens])
        self.pieces = [piece for _, piece in tokens]

    def matches(self, text: str) -> list[int]:
        """Return the places of the tokens that are the text, with or without a space before it; if there are none, of
        those that begin with it."""
        wanted = text.strip().casefold()
        plain = [piece.strip("▁ ") for piece in self.pieces]
        same = [place for place, piece in enumerate(plain) if piece == text.strip()]
        starts = [place for place, piece in enumerate(plain) if piece.casefold().startswith(wanted)]
        return (same or starts)[:MOST_MATCHES]


def circuits_of(question: CircuitQuestion, models: Models) -> dict[str, Any]:
    """Return the answer to a question, for JSON. Raises UserError if it cannot be answered.

    `attends` and `writes` (null in an encoder) each hold `table` {rows, columns, values} or null, and lists of pairs
    [row piece, column piece, value]: `pairs`, or with a token `from_token` and `to_token`.
    """
    run = models.get(question.run, question.checkpoint).run
    place = question.kind, question.layer, question.head
    heads_of(run, (place,))
    source, target = sides_of(run)
    head_circuits = circuits(run.model, *place, source.ids, target.ids, question.distance)
    read = source if question.kind == "encoder" else target
    seen = target if question.kind == "decoder" else source
    if question.token is not None and not read.matches(question.token) and not seen.matches(question.token):
        raise UserError(f"no token of the vocabulary begins with '{question.token}'")
    writes, square = head_circuits.writes, question.kind == "decoder"
    return {
        "checkpoint": run.checkpoint.name,
        "step": run.step,
        "rotary": run.model.rotary is not None and question.kind != "cross",
        "attends": described(head_circuits.attends, read, seen, question.token),
        "writes": None if writes is None else described(writes, seen, target, question.token),
        "copying": round(head_circuits.copying, 4) if square and head_circuits.copying is not None else None,
        "own": round(writes.share_on_diagonal(), 4) if square and writes is not None else None,
    }


def sides_of(run: Run) -> tuple[Side, Side]:
    """Return the tokens of the source and of the target; of a GPT, the same twice. What is not written in the script of
    a side is known from the recorded examples: a script is foreign if only the other side has it."""
    sources, targets = set[str](), set[str]()
    first, last = run.tokenizers[0], run.tokenizers[-1]
    for example in recorded_examples(run):
        sources |= scripts_of(*text_pieces(first, example.source_ids or ()))
        targets |= scripts_of(*text_pieces(last, example.target_ids))
    if run.config.task == "gpt":
        both = Side(first, set())
        return both, both
    return Side(first, targets - sources), Side(last, sources - targets)


def text_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the pieces of ids, without special tokens such as </s>."""
    return tokenizer.pieces([token for token in ids if token not in tokenizer.special_ids])


def scripts_of(*pieces: str) -> set[str]:
    """Return the scripts of the letters of some pieces: the first words of their Unicode names, LATIN or HIRAGANA."""
    letters: Iterable[str] = {letter for piece in pieces for letter in piece if letter.isalpha()}
    return {unicodedata.name(letter, "").partition(" ")[0] for letter in letters}


def described(table: TokenTable, rows: Side, columns: Side, token: str | None) -> dict[str, Any]:
    """Return a table and its strongest pairs, for JSON."""
    if token is not None:
        first, second = rows.matches(token), columns.matches(token)
        return {
            "table": None,
            "from_token": _named(table, rows, columns, first, list(range(len(columns.pieces)))),
            "to_token": _named(table, rows, columns, list(range(len(rows.pieces))), second),
        }
    pairs = [
        [rows.pieces[row], columns.pieces[column], round(value, 3)] for row, column, value in table.strongest(PAIRS)
    ]
    small = max(len(rows.pieces), len(columns.pieces)) <= LARGEST_TABLE
    values = [[round(value, 3) for value in row] for row in table.values().tolist()] if small else []
    whole = {"rows": rows.pieces, "columns": columns.pieces, "values": values}
    return {"table": whole if small else None, "pairs": pairs}


def _named(table: TokenTable, rows: Side, columns: Side, some: list[int], others: list[int]) -> list[list[Any]]:
    """Return the strongest pairs of some rows and columns, with their pieces."""
    if not some or not others:
        return []
    part = TokenTable(table.rows[some], table.columns[others])
    return [
        [rows.pieces[some[row]], columns.pieces[others[column]], round(value, 3)]
        for row, column, value in part.strongest(PAIRS_OF_A_TOKEN)
    ]
