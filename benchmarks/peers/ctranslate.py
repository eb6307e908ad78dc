"""Run CTranslate2 through its own interface, with the weights that `interop.ctranslate` exports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from benchmarks.contender import Skipped
from interop.ctranslate.export import save
from interop.ctranslate.model import generator_spec
from model.gpt import GPT


def words(ids: Iterable[int]) -> list[str]:
    """Convert token ids to CTranslate2's string tokens, for a model without a tokenizer."""
    return [str(token) for token in ids]


def options(compute: str, threads: int, workers: int) -> dict[str, Any]:
    """Return arguments of a Generator or Translator for the device of all contenders. On a machine with a GPU, raises
    Skipped if CTranslate2 cannot use it, and for more than one thread or worker."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not ctranslate2.get_cuda_device_count():
        raise Skipped("this CTranslate2 build cannot use the GPU")
    if device == "cuda" and (threads > 1 or workers > 1):
        raise Skipped("on a GPU only one thread is measured")
    return {"device": device, "compute_type": compute, "intra_threads": threads, "inter_threads": workers}


def write_generator(model: GPT, folder: Path) -> None:
    """Write a GPT without a tokenizer into an existing folder. The end-of-text token is 0; `min_length` must suppress
    it."""
    special = {"start": 0, "eos": 0, "unk": 0}
    save(generator_spec(model, words(range(model.vocab_size)), special, ()), folder)
