"""A question about a run: read and validated from JSON, before any model is loaded."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import UserError

LONGEST_TEXT = 2000
"""Maximum number of characters of a text."""
MOST_WRITTEN = 200
"""Maximum number of tokens to write after a text."""
MOST_HEADS = 4096
"""Maximum number of heads to remove or to patch."""

MOST_DISTANCE = 4096
"""Maximum distance in tokens between a query and a key."""
LONGEST_TOKEN = 100
"""Maximum number of characters of a token."""

KINDS = ("encoder", "decoder", "cross")
TEXTS = {"text", "source", "target", "reverse", "continue"}
KEYS = {"run", "checkpoint", "removed", "how", "patch", "to", "whole_to"} | TEXTS
CIRCUIT_KEYS = {"run", "checkpoint", "circuit", "distance", "token"}
EFFECTS_KEYS = {"run", "checkpoint", "effects", "how"}
CHECKPOINT = re.compile(r"best|last|step-[0-9]{1,15}(-[0-9]{1,6})?|weights-[0-9]{1,15}")

Named = tuple[str, int, int | None]
"""Kind, layer and number of a head; None: all heads of the layer."""


@dataclass(frozen=True)
class Patch:
    """Heads whose output in the text is replaced by their output in another text, position by position."""

    text: str
    """The other text; for a translator, the other source."""
    target: str | None
    """The translation of the other source; None: the model translates it."""
    heads: tuple[Named, ...]


@dataclass(frozen=True)
class Question:
    """Question about a text, possibly with heads removed or patched."""

    run: Path
    checkpoint: str
    """`best`, `last`, or the name of a step or of early weights."""
    text: str | None
    source: str | None
    target: str | None
    reverse: bool
    """Whether to translate from the target language of the training data to the source language."""
    written: int
    """Number of tokens that a GPT writes after the text."""
    removed: tuple[Named, ...]
    how: str
    """`zero` or `mean`: what replaces the output of a removed head."""
    patch: Patch | None
    to: Path
    """File of the recording of the text, with the heads removed and patched."""
    whole_to: Path | None
    """File of the recording of the same tokens by the whole model; only written if heads are removed or patched."""


@dataclass(frozen=True)
class CircuitQuestion:
    """Question about the QK and OV circuits of a head."""

    run: Path
    checkpoint: str
    kind: str
    layer: int
    head: int
    distance: int
    """Positions from the key back to the query; negative for later keys of an encoder."""
    token: str | None
    """Only the pairs with this token; None: the strongest pairs of all."""


@dataclass(frozen=True)
class EffectsQuestion:
    """Question about the effect of each head on the predictions in a recorded text."""

    run: Path
    checkpoint: str
    recording: Path
    """The recording whose first example is the text."""
    how: str
    """`zero` or `mean`: what replaces the output of the head."""


def read_question(line: str) -> Question | CircuitQuestion | EffectsQuestion:
    """Read a question from a line of JSON. Raises UserError with one sentence if it is invalid."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError("the question is not JSON") from error
    if not isinstance(given, dict):
        raise UserError("the question is not a JSON object")
    for name, keys, read in (("circuit", CIRCUIT_KEYS, _circuit), ("effects", EFFECTS_KEYS, _effects)):
        if name in given:
            _refuse_others(given, keys)
            return read(given)
    _refuse_others(given, KEYS)
    return _question(given)


def _refuse_others(given: dict[str, Any], keys: set[str]) -> None:
    if unknown := sorted(given.keys() - keys):
        raise UserError(f"'{unknown[0][:40]}' is not part of a question")


def _effects(given: dict[str, Any]) -> EffectsQuestion:
    return EffectsQuestion(_path(given, "run"), _checkpoint(given), _path(given, "effects"), _how(given))


def _circuit(given: dict[str, Any]) -> CircuitQuestion:
    place, distance = given["circuit"], given.get("distance", 1)
    if not _is_head(place) or place[2] is None:
        raise UserError("'circuit' must be a head, [kind, layer, head]")
    if not isinstance(distance, int) or isinstance(distance, bool) or abs(distance) > MOST_DISTANCE:
        raise UserError(f"'distance' must be a number of tokens from -{MOST_DISTANCE} to {MOST_DISTANCE}")
    kind, layer, head = place
    if distance < 0 and kind != "encoder":
        raise UserError("only an encoder attends to later tokens: 'distance' must not be negative")
    token = _text(given, "token")
    if token is not None and len(token) > LONGEST_TOKEN:
        raise UserError(f"the token has {len(token):,} characters, more than the limit of {LONGEST_TOKEN}")
    return CircuitQuestion(_path(given, "run"), _checkpoint(given), kind, layer, head, distance, token)


def _question(given: dict[str, Any]) -> Question:
    text, source, target = (_text(given, key) for key in ("text", "source", "target"))
    if (text is None) == (source is None):
        raise UserError("a question needs either a text (GPT) or a source (translator)")
    if target is not None and source is None:
        raise UserError("a target needs a source")
    reverse = given.get("reverse", False)
    if not isinstance(reverse, bool) or (reverse and source is None):
        raise UserError("'reverse' must be true or false, and needs a source")
    written = given.get("continue", 0)
    if not _is_whole(written, MOST_WRITTEN):
        raise UserError(f"'continue' must be a number of tokens from 0 to {MOST_WRITTEN}")
    patch = _patch(given.get("patch"))
    if patch is not None and written:
        raise UserError("a text cannot be continued while heads are patched: their outputs exist for its tokens only")
    return Question(
        run=_path(given, "run"),
        checkpoint=_checkpoint(given),
        text=text,
        source=source,
        target=target,
        reverse=reverse,
        written=written,
        removed=_heads(given.get("removed", []), "removed"),
        how=_how(given),
        patch=patch,
        to=_path(given, "to"),
        whole_to=_path(given, "whole_to") if given.get("whole_to") is not None else None,
    )


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is None or (key == "target" and value == ""):
        return None
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"the {key} is empty" if isinstance(value, str) else f"the {key} must be a text")
    if len(value) > LONGEST_TEXT:
        raise UserError(f"the {key} has {len(value):,} characters, more than the limit of {LONGEST_TEXT:,}")
    return value.encode("utf-8", "replace").decode()  # lone surrogates become question marks


def _checkpoint(given: dict[str, Any]) -> str:
    checkpoint = given.get("checkpoint") or "best"
    if not isinstance(checkpoint, str) or not CHECKPOINT.fullmatch(checkpoint):
        raise UserError("'checkpoint' must be best, last or the name of a step such as step-00000500")
    return checkpoint


def _how(given: dict[str, Any]) -> str:
    how = given.get("how", "zero")
    if how not in ("zero", "mean"):
        raise UserError("'how' must be zero or mean")
    return str(how)


def _patch(given: object) -> Patch | None:
    if given is None:
        return None
    if not isinstance(given, dict) or given.keys() - {"text", "target", "heads"}:
        raise UserError("'patch' must be an object with a text and heads")
    text, heads = _text(given, "text"), _heads(given.get("heads", []), "patch")
    if text is None or not heads:
        raise UserError("'patch' needs a text and at least one head")
    return Patch(text, _text(given, "target"), heads)


def _heads(given: object, key: str) -> tuple[Named, ...]:
    if not isinstance(given, list) or len(given) > MOST_HEADS or not all(map(_is_head, given)):
        raise UserError(f"'{key}' must be a list of at most {MOST_HEADS} heads, each [kind, layer, head or null]")
    return tuple((kind, layer, head) for kind, layer, head in given)


def _is_head(given: object) -> bool:
    right = isinstance(given, list) and len(given) == 3 and given[0] in KINDS and _is_whole(given[1], 99_999)
    return right and (given[2] is None or _is_whole(given[2], 99_999))  # type: ignore[index]


def _is_whole(given: object, most: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= most


def _path(given: dict[str, Any], key: str) -> Path:
    value = given.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise UserError(f"'{key}' must be a path")
    if key == "run" and "," in value and not Path(value).exists():
        raise UserError("several runs form an ensemble, which has no attention maps: ask one run at a time")
    return Path(value)
