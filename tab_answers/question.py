"""A question about a run: read and validated from JSON, before any model is loaded."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_maps.files.file_names import KINDS
from configs.errors import UserError
from generation.config import GenerateConfig, problems

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

SAMPLING, BEAM = ("temperature", "top_k", "top_p", "seed"), ("beam_size",)
"""Settings of generate.py that say how a text is continued, and how a source is translated."""
WHOLE, OPTIONAL = {"top_k", "seed", "beam_size"}, {"top_k", "top_p"}
"""Those that are whole numbers, and those that may be null."""

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
    decoding: GenerateConfig
    """How the text is continued, or the source translated."""
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
    """Read a question from a line of JSON, which the tab has composed of the keys that a browser may set. Raises
    UserError with one sentence if a value is invalid."""
    try:
        question = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError("the question is not JSON") from error
    if not isinstance(question, dict):
        raise UserError("the question is not a JSON object")
    if "circuit" in question:
        return _circuit(question)
    return _effects(question) if "effects" in question else _question(question)


def _effects(question: dict[str, Any]) -> EffectsQuestion:
    return EffectsQuestion(_path(question, "run"), _checkpoint(question), _path(question, "effects"), _how(question))


def _circuit(question: dict[str, Any]) -> CircuitQuestion:
    place, distance = question["circuit"], question.get("distance", 1)
    if not _is_head(place) or place[2] is None:
        raise UserError("'circuit' must be a head, [kind, layer, head]")
    if not isinstance(distance, int) or isinstance(distance, bool) or abs(distance) > MOST_DISTANCE:
        raise UserError(f"'distance' must be a number of tokens from -{MOST_DISTANCE} to {MOST_DISTANCE}")
    kind, layer, head = place
    if distance < 0 and kind != "encoder":
        raise UserError("only an encoder attends to later tokens: 'distance' must not be negative")
    token = _text(question, "token")
    if token is not None and len(token) > LONGEST_TOKEN:
        raise UserError(f"the token has {len(token):,} characters, more than the limit of {LONGEST_TOKEN}")
    return CircuitQuestion(_path(question, "run"), _checkpoint(question), kind, layer, head, distance, token)


def _question(question: dict[str, Any]) -> Question:
    text, source, target = (_text(question, key) for key in ("text", "source", "target"))
    if (text is None) == (source is None):
        raise UserError("a question needs either a text (GPT) or a source (translator)")
    if target is not None and source is None:
        raise UserError("a target needs a source")
    reverse = question.get("reverse", False)
    if not isinstance(reverse, bool) or (reverse and source is None):
        raise UserError("'reverse' must be true or false, and needs a source")
    written = question.get("continue", 0)
    if not _is_whole(written, MOST_WRITTEN):
        raise UserError(f"'continue' must be a number of tokens from 0 to {MOST_WRITTEN}")
    decoding = _decoding(question, source is not None)
    patch = _patch(question.get("patch"))
    if patch is not None and written:
        raise UserError("a text cannot be continued while heads are patched: their outputs exist for its tokens only")
    return Question(
        run=_path(question, "run"),
        checkpoint=_checkpoint(question),
        text=text,
        source=source,
        target=target,
        reverse=reverse,
        written=written,
        decoding=decoding,
        removed=_heads(question.get("removed", []), "removed"),
        how=_how(question),
        patch=patch,
        to=_path(question, "to"),
        whole_to=_path(question, "whole_to") if question.get("whole_to") is not None else None,
    )


def _text(question: dict[str, Any], key: str) -> str | None:
    value = question.get(key)
    if value is None or (key == "target" and value == ""):
        return None
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"the {key} is empty" if isinstance(value, str) else f"the {key} must be a text")
    if len(value) > LONGEST_TEXT:
        raise UserError(f"the {key} has {len(value):,} characters, more than the limit of {LONGEST_TEXT:,}")
    return value.encode("utf-8", "replace").decode()  # lone surrogates become question marks


def _decoding(question: dict[str, Any], translates: bool) -> GenerateConfig:
    """Read how to write, by the rules of generate.py; a text is continued by the most likely tokens by default."""
    for key in SAMPLING if translates else BEAM:
        if key in question:
            raise UserError(f"'{key}' needs a {'text' if translates else 'source'}")
    given = {key: question[key] for key in (*SAMPLING, *BEAM) if key in question}
    for key, value in given.items():
        right = isinstance(value, int if key in WHOLE else int | float) and not isinstance(value, bool)
        if not right and not (value is None and key in OPTIONAL):
            raise UserError(f"'{key}' must be a {'whole number' if key in WHOLE else 'number'}")
    config = GenerateConfig(run=str(_path(question, "run")), **{"temperature": 0.0} | given)
    if wrong := problems(config):
        raise UserError(*wrong)
    return config


def _checkpoint(question: dict[str, Any]) -> str:
    checkpoint = question.get("checkpoint") or "best"
    if not isinstance(checkpoint, str) or not CHECKPOINT.fullmatch(checkpoint):
        raise UserError("'checkpoint' must be best, last or the name of a step such as step-00000500")
    return checkpoint


def _how(question: dict[str, Any]) -> str:
    how = question.get("how", "zero")
    if how not in ("zero", "mean"):
        raise UserError("'how' must be zero or mean")
    return str(how)


def _patch(patch: object) -> Patch | None:
    if patch is None:
        return None
    if not isinstance(patch, dict) or patch.keys() - {"text", "target", "heads"}:
        raise UserError("'patch' must be an object with a text and heads")
    text, heads = _text(patch, "text"), _heads(patch.get("heads", []), "patch")
    if text is None or not heads:
        raise UserError("'patch' needs a text and at least one head")
    return Patch(text, _text(patch, "target"), heads)


def _heads(heads: object, key: str) -> tuple[Named, ...]:
    if not isinstance(heads, list) or len(heads) > MOST_HEADS or not all(map(_is_head, heads)):
        raise UserError(f"'{key}' must be a list of at most {MOST_HEADS} heads, each [kind, layer, head or null]")
    return tuple((kind, layer, head) for kind, layer, head in heads)


def _is_head(value: object) -> bool:
    right = isinstance(value, list) and len(value) == 3 and value[0] in KINDS and _is_whole(value[1], 99_999)
    return right and (value[2] is None or _is_whole(value[2], 99_999))  # type: ignore[index]


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _path(question: dict[str, Any], key: str) -> Path:
    value = question.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise UserError(f"'{key}' must be a path")
    if key == "run" and "," in value and not Path(value).exists():
        raise UserError("several runs form an ensemble, which has no attention maps: ask one run at a time")
    return Path(value)
