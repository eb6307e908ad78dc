"""Collect what the answers of a page (`page/engine/answers/`) need beside weights and tokenizers: limits, names
and what is measured on the recordings of a run, which the page may not contain."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_maps.tensorboard.questions import LAST_NUMBER, checkpoints
from generation.config import ONE_DIRECTION
from interpretability.ablation import Head
from interpretability.predictions import LENS, PREDICTIONS
from run import Run
from tab_answers import circuits, question
from tab_answers.circuits import sides_of
from tab_answers.head_effects import SECONDS
from tab_answers.model_cache import CachedModel
from tab_answers.predictions import TOP
from tab_answers.replaced_outputs import mean_outputs
from tab_answers.run_recordings import labels_of, recorded_examples

NAMED_CHARACTERS = (
    (0x20, 0x24F),  # Latin
    (0x370, 0x52F),  # Greek, Cyrillic
    (0x2000, 0x206F),  # punctuation
    (0x20A0, 0x22FF),  # currencies, letterlike symbols, arrows, mathematics
    (0x25A0, 0x27BF),  # shapes, symbols
    (0x3000, 0x30FF),  # Japanese punctuation and kana
    (0xFF01, 0xFF9F),  # full width and half width
    (0x1F300, 0x1FAFF),  # pictures
)
"""First and last code points of the characters that a page names, in 31 kB compressed; all names would take 130 kB."""


def answer_data(run: Run, kept: Sequence[Run]) -> dict[str, Any]:
    """Return the data, for JSON. kept: `run` at each checkpoint of the page.

    `run`, `task`, `both_directions`, `longest` (tokens of a side that are read) and `context`; `limits` of questions
    and of lists; `left_out`: for each side, ids of the tokens that are not text of its language; `character_names`:
    [[code point of the first, names, one per line]]; `checkpoints` by name: step, whether it is `best` or `last`, the
    labels of its heads, and their mean outputs in the recorded examples as base64 of float32 [heads, head width] by
    `kind|layer`; null without a readable recording.
    """
    marks = {entry["name"]: entry for entry in checkpoints(str(run.folder / "attention"))}
    examples = recorded_examples(run)
    return {
        "run": run.folder.absolute().name,
        "task": run.config.task,
        "both_directions": run.config.data.both_directions,
        "one_direction": ONE_DIRECTION,
        "longest": run.longest,
        "context": run.model.config.context,
        "limits": LIMITS,
        "left_out": left_out(run),
        "character_names": [[first, _names(first, last)] for first, last in NAMED_CHARACTERS],
        "checkpoints": {
            member.checkpoint.name: {
                "step": member.step,
                "best": bool(marks.get(member.checkpoint.name, {}).get("best")),
                "last": bool(marks.get(member.checkpoint.name, {}).get("last")),
                "labels": labels_of(CachedModel(member)),
                "means": _encoded(mean_outputs(member, examples)) if examples else None,
            }
            for member in kept
        },
    }


LIMITS = {
    "longest_text": question.LONGEST_TEXT,
    "most_written": question.MOST_WRITTEN,
    "most_heads": question.MOST_HEADS,
    "most_distance": question.MOST_DISTANCE,
    "longest_token": question.LONGEST_TOKEN,
    "last_number": LAST_NUMBER,
    "top": TOP,
    "predictions": PREDICTIONS,
    "lens": LENS,
    "seconds": SECONDS,
    "largest_table": circuits.LARGEST_TABLE,
    "pairs": circuits.PAIRS,
    "pairs_of_a_token": circuits.PAIRS_OF_A_TOKEN,
    "most_matches": circuits.MOST_MATCHES,
}
"""The limits of `tab_answers`, by their names in the engine."""


def left_out(run: Run) -> list[list[int]]:
    """Return, for each tokenizer of a run, the ids of its tokens that are not in the circuits of that side."""
    sides = sides_of(run)
    chosen = [sides[0]] if run.config.task == "gpt" else sides
    sizes = [run.tokenizers[0].vocab_size, run.tokenizers[-1].vocab_size]
    return [sorted(set(range(size)) - set(side.ids.tolist())) for side, size in zip(chosen, sizes, strict=False)]


def _names(first: int, last: int) -> str:
    """Return the names of characters, one per line; empty for those without a name."""
    return "\n".join(unicodedata.name(chr(code), "") for code in range(first, last + 1))


def _encoded(means: Mapping[Head, Tensor]) -> dict[str, dict[str, Any]]:
    """Return mean outputs by kind and layer, for JSON."""
    layers: dict[str, list[Tensor]] = {}
    for (kind, layer, _), output in sorted(means.items()):
        layers.setdefault(f"{kind}|{layer}", []).append(output)
    return {
        place: {"heads": len(heads), "data": base64.b64encode(torch.stack(heads).numpy().tobytes()).decode("ascii")}
        for place, heads in layers.items()
    }
