"""Prepare the model for generation: a copy with its weights in the requested format."""

from __future__ import annotations

import sys

from configs.errors import UserError
from generation.writing import BATCH
from model.encoder_decoder import EncoderDecoder
from model.fast.decoding import prepare
from model.gpt import GPT


def decoding_copy(model: GPT | EncoderDecoder, weights: str, samples: int) -> GPT | EncoderDecoder:
    """Return a copy of the model, on its device, with `weights` (float32, bf16 or int8) for generating `samples` texts.

    Raises UserError for int8 on a device other than the CPU.
    """
    rows = min(samples, BATCH) if isinstance(model, GPT) else None
    if weights == "int8":
        device = next(model.parameters()).device
        if device.type != "cpu":
            raise UserError(
                f"quantize=int8: faster only on a CPU; omit it, or add device=cpu (device is {device.type})"
            )
        rounded = "weights" if rows == 1 else "weights and activations"
        print(f"note: {rounded} are rounded to 8 bits (quantize=int8)", file=sys.stderr)
    return prepare(model, weights, rows)
