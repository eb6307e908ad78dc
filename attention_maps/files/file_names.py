"""Names shared by writers and readers of recordings: the kinds of attention, and the files of a run,
`<run>/attention/step_00001000.safetensors` and `generated_00001.safetensors`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeVar, get_args

Kind = Literal["encoder", "decoder", "cross"]
"""`encoder`: source to source. `decoder`: text or target to preceding tokens. `cross`: target to source."""

KINDS: tuple[Kind, ...] = get_args(Kind)

FOLDER = "attention"
STEP = r"step_(?P<step>[0-9]{8}|[1-9][0-9]{8,14})"
GENERATED = r"generated_(?P<generated>[0-9]{5}|[1-9][0-9]{5,14})"
RECORDING = re.compile(rf"(?:{STEP}|{GENERATED})\.safetensors")
"""Each number has exactly one file name. At most 15 digits, which a browser represents exactly. No `=` or `,` in a
name, because TensorBoard and Hydra split at them."""
ASKED = re.compile(r"asked_([0-9]{5}|[1-9][0-9]{5,14})")
"""Recordings made for a question in the tab; they are not files of the run."""

File = TypeVar("File")


def numbered(files: Iterable[tuple[str, File]]) -> tuple[dict[int, File], dict[int, File]]:
    """Split (name, file) pairs into training steps and generated texts, each by ascending number; skip other names."""
    files_by_kind: dict[str, dict[int, File]] = {"step": {}, "generated": {}}
    for name, file in files:
        if match := RECORDING.fullmatch(name):
            what = "step" if match["step"] else "generated"
            files_by_kind[what][int(match[what])] = file
    steps, generated = (dict(sorted(by_number.items())) for by_number in files_by_kind.values())
    return steps, generated
