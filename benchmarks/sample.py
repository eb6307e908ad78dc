"""Compare sampling from a GPT with Hugging Face `generate` and CTranslate2, all with the same random weights.

Every text starts with one token and is continued at temperature 0.8 to the same length, without an end-of-text token.
Peers are configured according to their documentation and measured with every useful number of threads; the fastest
counts. If there is a GPU, all contenders use it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.contender import Benchmark, Comparison, Contender, Step
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import Shape
from configs.errors import UserError
from data.cpu_cores import cores

# Each function imports our code and torch itself: their memory must not be charged to the peers.
if TYPE_CHECKING:
    import torch

    from model.gpt import GPT


@dataclass(frozen=True)
class SampledGPT(Shape):
    """Size of a GPT in the architecture common to all contenders, and the length of the sampled texts."""

    vocabulary: int
    new_tokens: int
    """New tokens per text. Including the one-token prompt they fit in the context, which the peers cannot exceed."""
    top_k: int | None


SHAPES = {
    "0.8M": SampledGPT(4, 4, 128, 64, 65, 63, None),
    "10.7M": SampledGPT(6, 6, 384, 256, 65, 255, None),
    "124M": SampledGPT(12, 12, 768, 1024, 50257, 64, 200),
}
"""Sizes by number of parameters: nanoGPT's CPU recipe and baby GPT (characters), and GPT-2."""

TEMPERATURE = 0.8
PROMPT = 1  # not 0, which is the end-of-text token of CTranslate2's model


@dataclass
class SampleSettings(MeasureSettings):
    """Settings of `sample`."""

    model: Literal["0.8M", "10.7M", "124M"] = "10.7M"
    """Size of the GPT in parameters."""

    batch: int = 1
    """Number of texts sampled in parallel."""


def sample(settings: SampleSettings) -> None:
    """Measure sampling from a GPT in tokens per second: ours, Hugging Face, CTranslate2."""
    if settings.batch < 1:
        raise UserError(f"batch={settings.batch}: must be at least 1")
    measure(benchmark(settings.model, settings.batch), settings)


def benchmark(name: str, batch: int) -> Benchmark:
    """Return the benchmark for one model size and batch size."""
    shape = SHAPES[name]
    work = {"name": name, "batch": batch}

    def contender(label: str, build: str, ours: bool = False, **arguments: Any) -> Contender:
        return Contender(label, f"{__name__}:{build}", work | arguments, ours)

    contenders = decoders(contender, parallel=batch > 1)
    title = (
        f"Sampling from a GPT of {name} parameters ({shape.layers}L/{shape.heads}H/{shape.width}, context"
        f" {shape.context}, vocabulary {shape.vocabulary}): {batch} x {shape.new_tokens} tokens after a prompt of one"
    )
    return Benchmark(
        f"sample_{name}_batch_{batch}",
        title,
        "tokens",
        tuple(contenders),
        "ours float32",
        decoding_comparisons(f"Sampling, {name} parameters, batch {batch}", contenders),
    )


def decoders(contender: Callable[..., Contender], parallel: bool = True) -> list[Contender]:
    """Return a contender, created by contender(label, function, ours, **arguments), for each number format of ours and
    of Hugging Face's, and for each format, number of threads and, if `parallel`, of workers of CTranslate2."""
    available = cores()
    uses = {"1 thread": (1, 1), f"{available} threads": (available, 1)}
    if parallel:
        uses[f"{available} workers"] = 1, available
    return [
        *(contender(f"ours {weights}", "ours", True, weights=weights) for weights in ("float32", "bf16")),
        *(contender(f"Hugging Face {dtype}", "hugging_face", dtype=dtype) for dtype in ("float32", "bfloat16")),
        *(
            contender(f"CTranslate2 {compute}, {use}", "ctranslate2", compute=compute, threads=threads, workers=workers)
            for compute in ("float32", "int8")
            for use, (threads, workers) in uses.items()
        ),
    ]


def decoding_comparisons(what: str, contenders: list[Contender]) -> tuple[Comparison, ...]:
    """Return comparisons of our rows with Hugging Face, and with CTranslate2 by number format. It is measured without
    bf16; ours is therefore compared with its float32 and with its int8, which is faster."""

    def named(*beginnings: str) -> tuple[str, ...]:
        return tuple(contender.name for contender in contenders if contender.name.startswith(beginnings))

    ours = named("ours ")
    return (
        Comparison(f"{what}, against Hugging Face", ours, named("Hugging Face")),
        Comparison("the same, against CTranslate2 in float32", ours, named("CTranslate2 float32")),
        Comparison("the same, against CTranslate2 in int8", ours, named("CTranslate2 int8")),
    )


def random_gpt(name: str) -> tuple[GPT, SampledGPT]:
    """Create the GPT of this size whose random weights all contenders use -> model, size."""
    import torch

    from model.config import ModelConfig
    from model.gpt import GPT

    shape = SHAPES[name]
    torch.manual_seed(0)
    config = ModelConfig(
        layers=shape.layers,
        heads=shape.heads,
        width=shape.width,
        context=shape.context,
        norm="layer",
        position="learned",
        activation="gelu",
        qk_norm=False,
    )
    return GPT(config, shape.vocabulary).eval(), shape


def counted(write: Callable[[], int], expected: int) -> Step:
    """Return a step that raises RuntimeError unless all tokens were generated: texts that end early would look fast."""

    def step() -> int:
        written = write()
        if written != expected:
            raise RuntimeError(f"expected {expected} new tokens, got {written}")
        return written

    return step


def ours(name: str, batch: int, weights: str = "") -> Step:
    """Return a step with the project's sampling loop, in the default weight format if `weights` is empty."""
    from generation.config import SamplingConfig
    from generation.fast_decoding import prepare
    from generation.sampling import generate
    from training.hardware.bfloat16 import decoding_format

    place, (plain, shape) = our_device(), random_gpt(name)
    chosen = weights or decoding_format(place, sum(parameter.numel() for parameter in plain.parameters()))
    model = prepare(plain.to(place), chosen, rows=batch)
    config = SamplingConfig(temperature=TEMPERATURE, top_k=shape.top_k, max_tokens=shape.new_tokens)

    def write() -> int:
        return sum(token is not None for tokens in generate(model, [[PROMPT]] * batch, config) for token in tokens)

    return counted(write, batch * shape.new_tokens)


def our_device() -> torch.device:
    """Return the device of all contenders, set up as in `generate.py`."""
    from benchmarks.device import device
    from training.hardware.device import choose_hardware

    return choose_hardware(device().type, "float32", None).device


def hugging_face(name: str, batch: int, dtype: str) -> Step:
    """Return a step that calls `GPT2LMHeadModel.generate` with its key/value cache."""
    import torch

    from benchmarks.device import device
    from benchmarks.peers.hugging_face import gpt2

    plain, shape = random_gpt(name)
    model = gpt2(plain).to(device(), getattr(torch, dtype))
    prompts = torch.full((batch, 1), PROMPT, device=device())

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


def ctranslate2(name: str, batch: int, compute: str, threads: int, workers: int) -> Step:
    """Return a step that calls `Generator.generate_batch`; the texts of a batch are divided among the workers."""
    import ctranslate2 as library

    from benchmarks.peers.ctranslate import options, words, write_generator

    chosen, (plain, shape) = options(compute, threads, workers), random_gpt(name)
    with tempfile.TemporaryDirectory() as folder:
        write_generator(plain, Path(folder))
        generator = library.Generator(folder, **chosen)
    prompts = [words([PROMPT])] * batch

    def write() -> int:
        results = generator.generate_batch(
            prompts,
            max_batch_size=-(-batch // workers),
            include_prompt_in_result=False,
            min_length=shape.new_tokens,
            max_length=shape.new_tokens,
            sampling_topk=shape.top_k or 0,
            sampling_temperature=TEMPERATURE,
        )
        return sum(len(result.sequences_ids[0]) for result in results)

    return counted(write, batch * shape.new_tokens)
