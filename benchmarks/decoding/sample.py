"""Writing text with a GPT: ours beside Hugging Face `generate`, CTranslate2 and nanoGPT, all with the same random
weights.

Every text begins with one token and is continued at temperature 0.8 to the same length; no token ends it. Peers are set
up as their documentation says and at every thread setting that makes sense; the fastest counts. Where there is a GPU
all compute on it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.contender import Benchmark, Comparison, Contender, Skipped, Step
from benchmarks.harness import MeasureSettings, measure
from configs.errors import UserError
from configs.program import expanded

if TYPE_CHECKING:
    import torch

    from model.gpt import GPT


@dataclass(frozen=True)
class Shape:
    """A GPT, in the architecture that all contenders have, and how it is sampled from."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    new_tokens: int
    """Per text. With the prompt's one token they fit the context: beyond it the peers cannot write."""
    top_k: int | None
    uncached_tokens: int
    """What nanoGPT writes per text at a batch above 1: it reads all of a text anew for each token, so that few are to
    its advantage."""


SHAPES = {
    "0.8M": Shape(4, 4, 128, 64, 65, 63, None, 63),
    "10.7M": Shape(6, 6, 384, 256, 65, 255, None, 8),
    "124M": Shape(12, 12, 768, 1024, 50257, 64, 200, 8),
}
"""By number of parameters: nanoGPT's CPU recipe and baby GPT (characters), and GPT-2."""

TEMPERATURE = 0.8
PROMPT = 1  # token 0 ends a text in CTranslate2's model


@dataclass
class SampleSettings(MeasureSettings):
    """Settings of `sample`."""

    model: Literal["0.8M", "10.7M", "124M"] = "10.7M"
    """Size of the GPT in parameters."""

    batch: int = 1
    """Texts written at the same time."""

    nanogpt: str = ""
    """A checkout of nanoGPT; without it its row is skipped."""


def sample(settings: SampleSettings) -> None:
    """Sampling from a GPT in tokens per second: ours, Hugging Face, CTranslate2, nanoGPT."""
    if settings.batch < 1:
        raise UserError(f"batch={settings.batch}: must be at least 1")
    measure(benchmark(settings.model, settings.batch, settings.nanogpt), settings)


def benchmark(name: str, batch: int, checkout: str) -> Benchmark:
    """All contenders of one size and batch."""
    shape = SHAPES[name]
    work = {"name": name, "batch": batch}

    def contender(label: str, build: str, ours: bool = False, **arguments: Any) -> Contender:
        return Contender(label, f"benchmarks.decoding.sample:{build}", work | arguments, ours)

    contenders = [
        *(contender(f"ours {weights}", "ours", True, weights=weights) for weights in ("float32", "bf16", "int8")),
        *(contender(f"Hugging Face {dtype}", "hugging_face", dtype=dtype) for dtype in ("float32", "bfloat16")),
        contender("Hugging Face bfloat16, compiled", "hugging_face", dtype="bfloat16", cache="static"),
        *(
            contender(f"CTranslate2 {label}", "ctranslate2", **arguments)
            for label, arguments in ctranslate2_settings().items()
            if batch > 1 or arguments["workers"] == 1
        ),
        contender("nanoGPT float32", "nanogpt", checkout=checkout and str(expanded(checkout).absolute())),
    ]
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


def ctranslate2_settings() -> dict[str, dict[str, Any]]:
    """Number formats and ways to use the cores, by label; arguments of the builders."""
    cores = os.cpu_count() or 1
    ways = {"1 thread": (1, 1), f"{cores} threads": (cores, 1), f"{cores} workers": (1, cores)}
    return {
        f"{compute}, {way}": {"compute": compute, "threads": threads, "workers": workers}
        for compute in ("float32", "int8")
        for way, (threads, workers) in ways.items()
    }


def decoding_comparisons(what: str, contenders: list[Contender]) -> tuple[Comparison, ...]:
    """Our rows against those of Hugging Face, and number format by number format against CTranslate2."""

    def named(*beginnings: str) -> tuple[str, ...]:
        return tuple(one.name for one in contenders if one.name.startswith(beginnings))

    unquantised = ("ours float32", "ours bf16")
    return (
        Comparison(f"{what}, against Hugging Face", unquantised, named("Hugging Face")),
        Comparison("the same with weights in int8, against Hugging Face", ("ours int8",), named("Hugging Face")),
        Comparison("the same, against CTranslate2 in float32", unquantised, named("CTranslate2 float32")),
        Comparison("the same in int8, against CTranslate2 in int8", ("ours int8",), named("CTranslate2 int8")),
    )


def random_gpt(shape: Shape) -> GPT:
    """The weights that all contenders get."""
    import torch

    from model.config import ModelConfig
    from model.gpt import GPT

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
    return GPT(config, shape.vocabulary).eval()


def counted(write: Callable[[], int], expected: int) -> Step:
    """A step that makes sure that all was written: a text that ended early would look like speed."""

    def step() -> int:
        written = write()
        if written != expected:
            raise RuntimeError(f"{written} tokens were written, not {expected}")
        return written

    return step


def ours(name: str, batch: int, weights: str) -> Step:
    """The project's sampling loop on a model made ready as `generate.py` makes it."""
    from generation.config import SamplingConfig
    from generation.sampling import generate
    from model.fast.decoding import prepare

    shape = SHAPES[name]
    model = prepare(random_gpt(shape).to(our_device(weights)), weights, rows=batch)
    config = SamplingConfig(temperature=TEMPERATURE, top_k=shape.top_k, max_tokens=shape.new_tokens)

    def write() -> int:
        return sum(token is not None for tokens in generate(model, [[PROMPT]] * batch, config) for token in tokens)

    return counted(write, batch * shape.new_tokens)


def our_device(weights: str) -> torch.device:
    """Where ours decodes with weights in this format: on the peers' device, set up as `generate.py` does."""
    from benchmarks.peers.gpt import device
    from training.hardware.device import choose_hardware

    if weights == "int8" and device().type != "cpu":
        raise Skipped("int8 is for a CPU")
    return choose_hardware(device().type, "float32", None).device


def hugging_face(name: str, batch: int, dtype: str, cache: str | None = None) -> Step:
    """`GPT2LMHeadModel.generate` with its key/value cache. With a static one that library compiles the step, on a GPU
    alone."""
    import torch

    from benchmarks.peers.gpt import device
    from benchmarks.peers.hugging_face import gpt2

    if cache == "static" and device().type != "cuda":
        raise Skipped("it compiles on a GPU alone")
    shape = SHAPES[name]
    model = gpt2(random_gpt(shape)).to(device(), getattr(torch, dtype))
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
            cache_implementation=cache,
        )
        return written.numel() - prompts.numel()

    return counted(write, batch * shape.new_tokens)


def ctranslate2(name: str, batch: int, compute: str, threads: int, workers: int) -> Step:
    """`Generator.generate_batch`; several workers share the texts of a batch."""
    import ctranslate2 as library

    from benchmarks.peers.ctranslate_two import comparable_device, words, write_generator

    shape, device = SHAPES[name], comparable_device(threads, workers)
    with tempfile.TemporaryDirectory() as folder:
        write_generator(random_gpt(shape), Path(folder))
        generator = library.Generator(
            folder, device=device, compute_type=compute, intra_threads=threads, inter_threads=workers
        )
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


def nanogpt(name: str, batch: int, checkout: str) -> Step:
    """`GPT.generate` of a nanoGPT checkout, which has no cache."""
    import torch

    from benchmarks.peers.gpt import device
    from benchmarks.peers.nanogpt import nanogpt as in_nanogpt

    shape = SHAPES[name]
    model = in_nanogpt(random_gpt(shape), Path(checkout)).to(device())
    prompts = torch.full((batch, 1), PROMPT, device=device())
    new_tokens = shape.new_tokens if batch == 1 else shape.uncached_tokens

    def write() -> int:
        return model.generate(prompts, new_tokens, TEMPERATURE, shape.top_k).numel() - prompts.numel()

    return counted(write, batch * new_tokens)
