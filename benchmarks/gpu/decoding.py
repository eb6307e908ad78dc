"""Writing and translating on a GPU: our sampling and beam search beside Hugging Face `generate`, random weights of real
sizes.

The models are those of `benchmarks/decoding/sample.py`, the format of the weights is what `generate.py` would choose on
this machine.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.contender import Benchmark, Contender, Step
from benchmarks.decoding.sample import PROMPT, SHAPES, TEMPERATURE, counted, random_gpt
from benchmarks.gpu.figures import Figure, Sheet, StageSettings
from benchmarks.gpu.timing import the_device
from benchmarks.gpu.turns import ENVIRONMENT, measured
from benchmarks.report import number
from training.hardware.device import choose_hardware
from training.hardware.number_format import decoding_format

BATCHES = (1, 32, 256)
BEAM_SIZE, SENTENCES, SOURCE_TOKENS, TARGET_TOKENS = 5, 64, 24, 40


def decoding(settings: StageSettings) -> None:
    """Sampling from a GPT and translating with a beam, in tokens and sentences per second: ours, Hugging Face."""
    sheet = Sheet(settings.to)
    sizes, batches = (("0.8M",), (2,)) if settings.dry_run else (("10.7M", "124M"), BATCHES)
    sampled = [contender(who, size, batch) for size in sizes for batch in batches for who in ("ours", "Hugging Face")]
    beamed = Contender(
        f"beam {BEAM_SIZE} of tatoeba's shape, {SENTENCES} sentences of {SOURCE_TOKENS} tokens, {TARGET_TOKENS}"
        " written, ours",
        "benchmarks.gpu.decoding:beam",
        {"tiny": settings.dry_run},
        True,
        facts={"beam": BEAM_SIZE},
        environment=ENVIRONMENT,
    )
    benchmark = Benchmark("gpu_decoding", "Decoding", "tokens", (*sampled, beamed), sampled[0].name)
    result = measured(benchmark, settings)
    for row in result.rows:
        if not row.measured:
            sheet.add(Figure(row.name, status=row.status))
            continue
        unit = "sentences" if "beam" in row.facts else "tokens"
        rival = result.row(row.name.replace(", ours", ", Hugging Face")) if row.ours else None
        beside = f"{row.rate / rival.rate:.2f} x Hugging Face" if rival and rival is not row else ""
        facts = {"per_second": row.rate, "rates": row.rates, "peak_memory": row.peak_memory}
        sheet.add(Figure(row.name, f"{number(row.rate)} {unit}/s", beside, facts=facts))


def contender(who: str, size: str, batch: int) -> Contender:
    """Sampling a batch from a GPT of one size."""
    build = "ours" if who == "ours" else "hugging_face"
    arguments: dict[str, Any] = {"name": size, "batch": batch}
    return Contender(
        f"sampling {size}, batch {batch} x {SHAPES[size].new_tokens}, {who}",
        f"benchmarks.gpu.decoding:{build}",
        arguments,
        who == "ours",
        environment=ENVIRONMENT,
    )


def ours(name: str, batch: int) -> Step:
    """The project's sampling loop on a model made ready as `generate.py` makes it."""
    from generation.config import SamplingConfig
    from generation.sampling import generate
    from model.fast.decoding import prepare

    shape = SHAPES[name]
    device = choose_hardware("auto", "float32", None).device
    plain = random_gpt(shape).to(device)
    model = prepare(plain, decoding_format(device, sum(p.numel() for p in plain.parameters())), rows=batch)
    config = SamplingConfig(temperature=TEMPERATURE, top_k=shape.top_k, max_tokens=shape.new_tokens)

    def write() -> int:
        return sum(token is not None for tokens in generate(model, [[PROMPT]] * batch, config) for token in tokens)

    return counted(write, batch * shape.new_tokens)


def hugging_face(name: str, batch: int) -> Step:
    """`GPT2LMHeadModel.generate` in bfloat16 with its key/value cache."""
    from benchmarks.peers.hugging_face import gpt2

    shape = SHAPES[name]
    model = gpt2(random_gpt(shape)).to(the_device(), torch.bfloat16)
    prompts = torch.full((batch, 1), PROMPT, device=the_device())

    @torch.inference_mode()
    def write() -> int:
        written = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=shape.new_tokens,
            do_sample=True,
            temperature=TEMPERATURE,
            top_k=shape.top_k or 0,
        )
        return written.numel() - prompts.numel()

    return counted(write, batch * shape.new_tokens)


def beam(tiny: bool) -> Step:
    """Beam search of random weights, whose hypotheses do not end by themselves: every sentence is written to
    its limit."""
    from generation.beam_search import beam_search
    from model.config import ModelConfig
    from model.encoder_decoder import EncoderDecoder
    from model.fast.decoding import prepare

    device = choose_hardware("auto", "float32", None).device
    torch.manual_seed(0)
    config = (
        ModelConfig(layers=1, heads=2, width=32, context=64)
        if tiny
        else ModelConfig(layers=3, heads=4, width=256, context=128)
    )
    plain = EncoderDecoder(config, 4000, 4000, shared=True).eval().to(device)
    model = prepare(plain, decoding_format(device, sum(p.numel() for p in plain.parameters())))
    sentences = 2 if tiny else SENTENCES
    source = torch.randint(4, 4000, (sentences, SOURCE_TOKENS), device=device)

    def step() -> int:
        found = beam_search(
            model, source, bos_id=2, eos_id=3, max_length=TARGET_TOKENS, beam_size=BEAM_SIZE, banned_ids=(0, 1)
        )
        return len(found)

    return step
