"""File names of recordings: `<run>/attention/step_00001000.safetensors` and `generated_00001.safetensors`."""

from __future__ import annotations

import re

FOLDER = "attention"
STEP = r"step_(?P<step>[0-9]{8}|[1-9][0-9]{8,14})"
GENERATED = r"generated_(?P<generated>[0-9]{5}|[1-9][0-9]{5,14})"
RECORDING = re.compile(rf"(?:{STEP}|{GENERATED})\.safetensors")
"""Each number has exactly one file name. At most 15 digits, which a browser represents exactly. No `=` or `,` in a
name, because TensorBoard and Hydra split at them."""
