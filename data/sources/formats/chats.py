"""Refuse chats, which are neither texts nor pairs, with a command that makes texts of them."""

from __future__ import annotations

import re
import shlex
from itertools import product
from pathlib import Path
from typing import Any

from data.errors import DataError

_LISTS = ("messages", "conversations", "conversation", "dialog", "turns")
_TURNS = (("role", "content"), ("from", "value"), ("speaker", "text"))
"""Keys of the speaker and the text of a turn."""


def refuse_chat(row: dict[str, Any], where: str, file: str | None = None) -> None:
    """Raise DataError if a row is a chat. where: its place; file: of JSON, its path."""
    for key, (who, what) in product(_LISTS, _TURNS):
        turns = row.get(key)
        if isinstance(turns, list) and turns and isinstance(turns[0], dict) and who in turns[0] and what in turns[0]:
            turn = f"turn['{who}'] + ': ' + turn['{what}'] for turn in row['{key}']"
            way = f"dataset.map(lambda row: {{'text': '\\n'.join({turn})}})"
            if file:
                name = Path(file).name
                texts = shlex.quote(f"{name.partition('.')[0]}.texts.jsonl")
                array = ".[] | " if re.search(r", object \d+$", where) else ""
                program = f'{array}{{text: ([.{key}[] | .{who} + ": " + .{what}] | join("\\n"))}}'
                way = f"jq -c {shlex.quote(program)} {shlex.quote(name)} > {texts}, then data=text data.path={texts}"
            raise DataError(
                f"{where}: is a chat ({key}: {who}, {what}); models here continue texts or translate, and have no"
                f" format for chats. To train on them as texts: {way}"
            )
