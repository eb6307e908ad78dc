"""Compare sampling from a GPT with Hugging Face `generate`, CTranslate2, llama.cpp and nanoGPT, all with the same
random weights.

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

from benchmarks.contender import Benchmark, Comparison, Contender, Skipped, Step
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import absolute
from benchmarks.instructions import restricted_to
from benchmarks.shape import Shape
from configs.errors import UserError
from data.processes import cores

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
    uncached_tokens: int
    """New tokens per text of nanoGPT if the batch is larger than 1: without a cache nanoGPT recomputes the whole text
    for each token, so that fewer tokens are an advantage."""


SHAPES = {
    "0.8M": SampledGPT(4, 4, 128, 64, 65, 63, None, 63),
    "10.7M": SampledGPT(6, 6, 384, 256, 65, 255, None, 8),
    "124M": SampledGPT(12, 12, 768, 1024, 50257, 64, 200, 8),
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

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's row is skipped."""


def sample(settings: SampleSettings) -> None:
    """Measure sampling from a GPT in tokens per second: ours, Hugging Face, CTranslate2, llama.cpp, nanoGPT."""
    if settings.batch < 1:
        raise UserError(f"batch={settings.batch}: must be at least 1")
    measure(benchmark(settings.model, settings.batch, settings.nanogpt), settings)


def benchmark(name: str, batch: int, checkout: str) -> Benchmark:
    """Return the benchmark for one model size and batch size."""
    shape = SHAPES[name]
    work = {"name": name, "batch": batch}

    def contender(label: str, build: str, ours: bool = False, **arguments: Any) -> Contender:
        return Contender(label, f"{__name__}:{build}", work | arguments, ours)

    contenders = [
        *ours_and_hugging_face(contender),
        contender("Hugging Face bfloat16, compiled", "hugging_face", dtype="bfloat16", cache="static"),
        *ctranslate2_rows(contender, parallel=batch > 1),
        *llama_cpp_rows(contender),
        contender("nanoGPT float32", "nanogpt", checkout=absolute(checkout)),
    ]
    title = (
        f"Sampling from a GPT of {name} parameters ({shape.layers}L/{shape.heads}H/{shape.width}, context"
        f" {shape.context}, vocabulary {shape.vocabulary}): {batch} x {shape.new_tokens} tokens after a prompt of one"
    )
    comparisons = decoding_comparisons(f"Sampling, {name} parameters, batch {batch}", contenders)
    for ours_of, theirs in (("float32", "float32"), ("int8", "q8_0")):
        mine = tuple(one.name for one in contenders if one.ours and ours_of in one.name)
        peers = tuple(one.name for one in contenders if one.name.startswith(f"llama.cpp {theirs}"))
        comparisons += (Comparison(f"the same in {ours_of}, against llama.cpp in {theirs}", mine, peers),)
    name = f"sample_{name}_batch_{batch}"
    return Benchmark(name, title, "tokens", tuple(contenders), "ours float32", comparisons)


def ours_and_hugging_face(contender: Callable[..., Contender]) -> list[Contender]:
    """Return a contender for each weight format, created by contender(label, function, ours, **arguments)."""
    ours = [contender(f"ours {weights}", "ours", True, weights=weights) for weights in ("float32", "bf16")]
    ours += [
        contender(f"ours {weights}, engine=ctranslate2", "ours_with_ctranslate2", True, weights=weights)
        for weights in ("float32", "int8")
    ]
    dtypes = ("float32", "bfloat16")
    return ours + [contender(f"Hugging Face {dtype}", "hugging_face", dtype=dtype) for dtype in dtypes]


def ctranslate2_rows(contender: Callable[..., Contender], parallel: bool = True) -> list[Contender]:
    """Return a contender for each number format and number of threads and, if `parallel`, of workers."""
    available = cores()
    uses = {"1 thread": (1, 1), f"{available} threads": (available, 1)}
    if parallel:
        uses[f"{available} workers"] = 1, available
    return [
        contender(f"CTranslate2 {compute}, {use}", "ctranslate2", compute=compute, threads=threads, workers=workers)
        for compute in ("float32", "int8")
        for use, (threads, workers) in uses.items()
    ]


def llama_cpp_rows(contender: Callable[..., Contender]) -> list[Contender]:
    """Return a contender for each number format and number of threads."""
    available = cores()
    return [
        contender(
            f"llama.cpp {weights}, {threads} thread{'s' * (threads > 1)}", "llama_cpp", weights=weights, threads=threads
        )
        for weights in ("float32", "q8_0", "q4_0")
        for threads in sorted({1, available})
    ]


def decoding_comparisons(what: str, contenders: list[Contender]) -> tuple[Comparison, ...]:
    """Return comparisons of our rows with Hugging Face, and with CTranslate2 by number format. It is measured without
    bf16; ours is therefore compared with its float32 and with its int8, which is faster."""

    def named(*beginnings: str) -> tuple[str, ...]:
        return tuple(one.name for one in contenders if one.name.startswith(beginnings))

    torch, engine = ("ours float32", "ours bf16"), "engine=ctranslate2"
    both, with_torch = (*torch, f"ours float32, {engine}"), "the same with torch in float32 or bf16"
    return (
        Comparison(f"{what}, by torch or CTranslate2, against Hugging Face", both, named("Hugging Face")),
        Comparison(f"{with_torch}, against CTranslate2 in float32", torch, named("CTranslate2 float32")),
        Comparison(f"{with_torch}, against CTranslate2 in int8", torch, named("CTranslate2 int8")),
        Comparison(f"the same with {engine}", (f"ours float32, {engine}",), named("CTranslate2 float32")),
        Comparison(f"the same with {engine} in int8", (f"ours int8, {engine}",), named("CTranslate2 int8")),
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
    from generation.engines.torch_engine import sampler
    from model.fast.decoding import prepare
    from training.hardware.number_format import decoding_format

    place, (plain, shape) = our_device(), random_gpt(name)
    chosen = weights or decoding_format(place, sum(parameter.numel() for parameter in plain.parameters()))
    model = prepare(plain.to(place), chosen, rows=batch)
    config = SamplingConfig(temperature=TEMPERATURE, top_k=shape.top_k, max_tokens=shape.new_tokens)

    generate = sampler(model)

    def write() -> int:
        return sum(token is not None for tokens in generate(model, [[PROMPT]] * batch, config) for token in tokens)

    return counted(write, batch * shape.new_tokens)


def ours_with_ctranslate2(name: str, batch: int, weights: str) -> Step:
    """Return a step with the engine of `generate.py` that uses CTranslate2, after it has loaded the model."""
    from benchmarks.device import device
    from benchmarks.peers.ctranslate_two import NumberedTokens, write_generator
    from generation.config import GenerateConfig
    from generation.engines.ctranslate_engine import CTranslate2Engine

    if device().type != "cpu":
        raise Skipped("generate.py uses CTranslate2 on a CPU only")
    plain, shape = random_gpt(name)
    config = GenerateConfig(
        temperature=TEMPERATURE, top_k=shape.top_k, max_tokens=shape.new_tokens, samples=batch, quantize=weights
    )
    with tempfile.TemporaryDirectory() as folder:
        write_generator(plain, Path(folder), endless=True)
        tokens: Any = NumberedTokens(shape.vocabulary)
        engine = CTranslate2Engine(Path(folder), [tokens], shape.context, config)
        loaded = engine.seeded(batch, seed=1)

    def write() -> int:
        return sum(token is not None for step in engine.continued([PROMPT], batch, loaded) for token in step)

    return counted(write, batch * shape.new_tokens)


def our_device() -> torch.device:
    """Return the device of all contenders, set up as in `generate.py`."""
    from benchmarks.device import device
    from training.hardware.device import choose_hardware

    return choose_hardware(device().type, "float32", None).device


def hugging_face(name: str, batch: int, dtype: str, cache: str | None = None) -> Step:
    """Return a step that calls `GPT2LMHeadModel.generate` with its key/value cache. The library compiles the decoding
    step if the cache is static, on a GPU only."""
    import torch

    from benchmarks.device import device
    from benchmarks.peers.hugging_face import gpt2

    if cache == "static" and device().type != "cuda":
        raise Skipped("transformers compiles only on a GPU")
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
            cache_implementation=cache,
        )
        return written.numel() - prompts.numel()

    return counted(write, batch * shape.new_tokens)


def ctranslate2(name: str, batch: int, compute: str, threads: int, workers: int) -> Step:
    """Return a step that calls `Generator.generate_batch`; the texts of a batch are divided among the workers."""
    import ctranslate2 as library

    from benchmarks.peers.ctranslate_two import options, words, write_generator

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


def llama_cpp(name: str, batch: int, weights: str, threads: int) -> Step:
    """Return a step with llama.cpp, which continues all texts of the batch together. In float32, raises RuntimeError
    unless its most probable texts after different prompts are ours.
    Raises Skipped if the instruction set is restricted: llama.cpp is compiled for that of this machine."""
    if (instructions := restricted_to()) != "native":
        raise Skipped(f"llama.cpp cannot be restricted to {instructions.upper()}")
    from benchmarks.device import device
    from benchmarks.peers.llama_cpp import LlamaCpp, quantize, require_our_texts, write_model

    plain, shape = random_gpt(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float32.gguf"
        write_model(plain, path)
        if weights != "float32":
            quantize(path, weights, path := Path(folder) / f"{weights}.gguf")
        peer = LlamaCpp(path, batch, shape.new_tokens + 1, threads, gpu=device().type == "cuda")
    if weights == "float32":
        prompts = [(PROMPT + row) % shape.vocabulary for row in range(batch)]
        require_our_texts(plain, prompts, peer.continued(prompts, shape.new_tokens, 0, None))
    del plain

    def write() -> int:
        return sum(map(len, peer.continued([PROMPT] * batch, shape.new_tokens, TEMPERATURE, shape.top_k)))

    return counted(write, batch * shape.new_tokens)


def nanogpt(name: str, batch: int, checkout: str) -> Step:
    """Return a step that calls `GPT.generate` of a nanoGPT checkout, which has no key/value cache."""
    import torch

    from benchmarks.device import device
    from benchmarks.peers.nanogpt import nanogpt as in_nanogpt

    plain, shape = random_gpt(name)
    model = in_nanogpt(plain, checkout).to(device())
    prompts = torch.full((batch, 1), PROMPT, device=device())
    new_tokens = shape.new_tokens if batch == 1 else shape.uncached_tokens

    def write() -> int:
        return model.generate(prompts, new_tokens, TEMPERATURE, shape.top_k).numel() - prompts.numel()

    return counted(write, batch * new_tokens)
