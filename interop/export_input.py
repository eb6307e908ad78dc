"""A trained model to export, and the run that a model card describes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.tokens.tokenizer import Tokenizer
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


@dataclass(frozen=True)
class Trained:
    """A trained model in float32 on the CPU, in evaluation mode, and the run that it comes from."""

    model: GPT | EncoderDecoder
    tokenizers: list[Tokenizer]
    """One, or those of source and target."""

    run: Path
    """The run folder, whose `metrics.jsonl`, `test.json` and `evaluation/*.json` contain curve and scores."""

    step: int
    """Training step of the weights."""

    config: Mapping[str, Any]
    """The complete config of the run, as in its `config.yaml`: `task`, `data`, `tokenizer`, `model`, `trainer` …"""


def weights_hash(model: GPT | EncoderDecoder) -> str:
    """Return the SHA-256 of the weights, independent of file format and device."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
