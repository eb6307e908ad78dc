"""Sampling from a GPT: ours beside Hugging Face `generate`, CTranslate2 and nanoGPT, all with the same random weights.

Every text begins with one token and is continued at temperature 0.8 to the same length; no token ends it. Peers are set
up by their documentation, with every useful number of threads; the fastest counts. Where there is a GPU all use it.
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
from benchmarks.inputs import absolute
from benchmarks.shape import Shape
from configs.errors import UserError

if TYPE_CHECKING:
    import torch

    from model.gpt import GPT


@dataclass(frozen=True)
class SampledGPT(Shape):
    """A GPT in the architecture that all contenders have, and the length of its texts."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    new_tokens: int
    """Per text. With the prompt's one token they fit the context, which the peers cannot exceed."""
    top_k: int | None
    uncached_tokens: int
    """Tokens per text of nanoGPT at a batch above 1: without a cache it recomputes the whole text for each token, so
    that fewer are to its advantage."""


SHAPES = {
    "0.8M": SampledGPT(4, 4, 128, 64, 65, 63, None, 63),
    "10.7M": SampledGPT(6, 6, 384, 256, 65, 255, None, 8),
    "124M": SampledGPT(12, 12, 768, 1024, 50257, 64, 200, 8),
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
        return Contender(label, f"{__name__}:{build}", work | arguments, ours)

    contenders = [
        *ours_and_hugging_face(contender),
        contender("Hugging Face bfloat16, compiled", "hugging_face", dtype="bfloat16", cache="static"),
        *ctranslate2_rows(contender, parallel=batch > 1),
        contender("nanoGPT float32", "nanogpt", checkout=absolute(checkout)),
    ]
    title = (
        f"Sampling from a GPT of {name} parameters ({shape.layers}L/{shape.heads}H/{shape.width}, context"
        f" {shape.context}, vocabulary {shape.vocabulary}): {batch} x {shape.new_tokens} tokens after a prompt of one"
    )
    comparisons = decoding_comparisons(f"Sampling, {name} parameters, batch {batch}", contenders)
    name = f"sample_{name}_batch_{batch}"
    return Benchmark(name, title, "tokens", tuple(contenders), "ours float32", comparisons)


def ours_and_hugging_face(contender: Callable[..., Contender]) -> list[Contender]:
    """A row for each format of the weights. contender(label, function, ours, **arguments) makes one."""
    ours = [contender(f"ours {weights}", "ours", True, weights=weights) for weights in ("float32", "bf16", "int8")]
    dtypes = ("float32", "bfloat16")
    return ours + [contender(f"Hugging Face {dtype}", "hugging_face", dtype=dtype) for dtype in dtypes]


def ctranslate2_rows(contender: Callable[..., Contender], parallel: bool = True) -> list[Contender]:
    """A row for each number format and use of the cores; without `parallel`, none with several workers."""
    cores = os.cpu_count() or 1
    uses = {"1 thread": (1, 1), f"{cores} threads": (cores, 1)} | ({f"{cores} workers": (1, cores)} if parallel else {})
    return [
        contender(f"CTranslate2 {compute}, {use}", "ctranslate2", compute=compute, threads=threads, workers=workers)
        for compute in ("float32", "int8")
        for use, (threads, workers) in uses.items()
    ]


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


def random_gpt(shape: SampledGPT) -> GPT:
    """A GPT with the weights that all contenders get."""
    import torch

    from model.config import ModelConfig
    from model.gpt import GPT

    torch.manual_seed(0)
    config = ModelConfig(**shape.size, norm="layer", position="learned", activation="gelu", qk_norm=False)
    return GPT(config, shape.vocabulary).eval()


def counted(write: Callable[[], int], expected: int) -> Step:
    """A step that raises RuntimeError unless it wrote all tokens: a text that ends early would look fast."""

    def step() -> int:
        written = write()
        if written != expected:
            raise RuntimeError(f"{written} tokens were written, not {expected}")
        return written

    return step


def ours(name: str, batch: int, weights: str = "") -> Step:
    """The project's sampling loop on a model prepared as in `generate.py`, which also chooses the format of the weights
    where none is given."""
    from generation.config import SamplingConfig
    from generation.sampling import generate
    from model.fast.decoding import prepare
    from training.hardware.number_format import decoding_format

    shape = SHAPES[name]
    place, plain = our_device(weights), random_gpt(shape)
    chosen = weights or decoding_format(place, sum(parameter.numel() for parameter in plain.parameters()))
    model = prepare(plain.to(place), chosen, rows=batch)
    config = SamplingConfig(temperature=TEMPERATURE, top_k=shape.top_k, max_tokens=shape.new_tokens)

    def write() -> int:
        return sum(token is not None for tokens in generate(model, [[PROMPT]] * batch, config) for token in tokens)

    return counted(write, batch * shape.new_tokens)


def our_device(weights: str) -> torch.device:
    """The peers' device, set up as in `generate.py`. Raises Skipped for int8 on a GPU."""
    from benchmarks.device import device
    from training.hardware.device import choose_hardware

    if weights == "int8" and device().type != "cpu":
        raise Skipped("int8 is for a CPU")
    return choose_hardware(device().type, "float32", None).device


def hugging_face(name: str, batch: int, dtype: str, cache: str | None = None) -> Step:
    """`GPT2LMHeadModel.generate` with its key/value cache. With a static cache, and only on a GPU, the library compiles
    the step."""
    import torch

    from benchmarks.device import device
    from benchmarks.peers.hugging_face import gpt2

    if cache == "static" and device().type != "cuda":
        raise Skipped("it compiles only on a GPU")
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

    from benchmarks.peers.ctranslate_two import options, words, write_generator

    shape, chosen = SHAPES[name], options(compute, threads, workers)
    with tempfile.TemporaryDirectory() as folder:
        write_generator(random_gpt(shape), Path(folder))
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


def nanogpt(name: str, batch: int, checkout: str) -> Step:
    """`GPT.generate` of a nanoGPT checkout, which has no cache."""
    import torch

    from benchmarks.device import device
    from benchmarks.peers.nanogpt import nanogpt as in_nanogpt

    shape = SHAPES[name]
    model = in_nanogpt(random_gpt(shape), checkout).to(device())
    prompts = torch.full((batch, 1), PROMPT, device=device())
    new_tokens = shape.new_tokens if batch == 1 else shape.uncached_tokens

    def write() -> int:
        return model.generate(prompts, new_tokens, TEMPERATURE, shape.top_k).numel() - prompts.numel()

    return counted(write, batch * new_tokens)
