"""Measure sampling, compared with Hugging Face `generate`, and beam search on a GPU, with random weights.

Models and contenders are those of `benchmarks/sample.py`; our weights have the default format of `generate.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.contender import Contender, Step
from benchmarks.gpu.figures import Figure, Inputs, compete
from benchmarks.results import Row, number
from benchmarks.sample import SHAPES
from generation.cuda.beam_search import beam_search_with_graphs
from generation.fast_decoding import prepare
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from training.hardware.bfloat16 import decoding_format
from training.hardware.device import choose_hardware

BATCHES = (1, 32, 256)
BEAM_SIZE, SENTENCES, SOURCE_TOKENS, TARGET_TOKENS = 5, 64, 24, 40
BEAM = (
    f"beam search with beam {BEAM_SIZE}, tatoeba's model size, {SENTENCES} sentences, {SOURCE_TOKENS} source and"
    f" {TARGET_TOKENS} target tokens, ours"
)


def decoding(inputs: Inputs) -> Iterator[Figure]:
    """Measure beam search in sentences/s (ours), and sampling from a GPT in tokens/s (ours, Hugging Face)."""
    sizes, batches = (("0.8M",), (2,)) if inputs.dry_run else (("10.7M", "124M"), BATCHES)
    beam_search = Contender(BEAM, f"{__name__}:beam", {"tiny": inputs.dry_run}, ours=True)
    for size in sizes:
        samplers = [sampler(program, size, batch) for batch in batches for program in ("ours", "Hugging Face")]
        contenders = [*samplers, beam_search] if size == sizes[0] else samplers
        yield from compete(contenders, decoding_figure, inputs.dry_run)


def sampler(program: str, size: str, batch: int) -> Contender:
    """Return a contender that samples a batch from a GPT of the given size."""
    build, weights = ("ours", {}) if program == "ours" else ("hugging_face", {"dtype": "bfloat16"})
    arguments: dict[str, Any] = {"name": size, "batch": batch, **weights}
    label = f"sampling {size}, batch {batch} x {SHAPES[size].new_tokens}, {program}"
    return Contender(label, f"benchmarks.sample:{build}", arguments, program == "ours")


def decoding_figure(row: Row) -> Figure:
    """Return the figure of a row: units per second; ours is compared with Hugging Face."""
    facts: dict[str, Any] = {"rate": row.rate, "memory": row.peak_memory, "rates": row.rates}
    if row.name.endswith(", ours"):
        facts["rival"] = (row.name.removesuffix("ours") + "Hugging Face", "Hugging Face")
    return Figure(row.name, f"{number(row.rate)} {'sentences' if row.name == BEAM else 'tokens'}/s", facts=facts)


def beam(tiny: bool) -> Step:
    """Return a beam search step with random weights, under which hypotheses run to the length limit."""
    device = choose_hardware("auto", "float32", None).device
    torch.manual_seed(0)
    tatoeba = ModelConfig(layers=3, heads=4, width=256, context=128)
    config = ModelConfig(layers=1, heads=2, width=32, context=64) if tiny else tatoeba
    plain = EncoderDecoder(config, 4000, 4000, shared=True).eval().to(device)
    model = prepare(plain, decoding_format(device, sum(p.numel() for p in plain.parameters())))
    sentences = 2 if tiny else SENTENCES
    source = torch.randint(4, 4000, (sentences, SOURCE_TOKENS), device=device)

    def step() -> int:
        hypotheses = beam_search_with_graphs(
            model, source, bos_id=2, eos_id=3, max_length=TARGET_TOKENS, beam_size=BEAM_SIZE, banned_ids=(0, 1)
        )
        return len(hypotheses)

    return step
