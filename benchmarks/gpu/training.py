"""Compare training steps of four models with nanoGPT and Hugging Face GPT-2, all compiled.

All GPTs have GPT-2's architecture (LayerNorm, learned positions, GELU, tied embeddings; biases only in Hugging Face's)
without dropout, and read the same tokens, drawn from a Zipf distribution over a vocabulary of the original size. MFU
counts 6 N + 12 L T C operations per token for all of them, N = 12 L C² + V C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Contender
from benchmarks.gpu.figures import Figure, Inputs, compete
from benchmarks.inputs import Shape, model_settings
from benchmarks.ours import composed
from benchmarks.results import Row, number
from model.encoder_decoder import EncoderDecoder
from model.size import flops_per_token
from training.hardware.device import PEAK_FLOPS

PEAK = PEAK_FLOPS["H200"]
"""Dense bf16 FLOP/s of one H100 or H200 (data sheet): the denominator of published MFU figures."""

OURS, NANOGPT, HUGGING_FACE = "ours", "nanoGPT", "Hugging Face GPT-2"


@dataclass(frozen=True)
class Model(Shape):
    """Size of a GPT."""

    vocabulary: int
    name: str

    @property
    def parameters(self) -> int:
        """Number of parameters with tied embeddings: 12 L C² + V C."""
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width

    @property
    def operations_per_token(self) -> int:
        """Operations per token of the forward and backward pass."""
        return 6 * self.parameters + 12 * self.layers * self.context * self.width


@dataclass(frozen=True)
class Group:
    """Contenders that train one model with one batch size, in sequences, in alternating turns."""

    model: Model
    batch: int
    programs: tuple[str, ...]


GPT2 = Model(12, 12, 768, 1024, 50257, "124M")
WIDE_HEADS = Model(12, 6, 768, 1024, 50257, "124M, 6 heads of 128")
MEDIUM = Model(24, 16, 1024, 1024, 50257, "350M")
BABY = Model(6, 6, 384, 256, 65, "10.7M")
TINY = Model(1, 2, 32, 32, 100, "tiny")

MAIN = (Group(GPT2, 64, (OURS, NANOGPT)), Group(BABY, 64, (OURS, NANOGPT)))
SIZES = (
    Group(BABY, 512, (OURS, NANOGPT, HUGGING_FACE)),
    Group(GPT2, 32, (OURS, NANOGPT, HUGGING_FACE)),
    Group(WIDE_HEADS, 64, (OURS,)),
    Group(MEDIUM, 32, (OURS, NANOGPT)),
    Group(MEDIUM, 16, (HUGGING_FACE,)),
)
"""The groups of the stages `training` and `sizes`, the most important first."""

TRANSLATOR_TOKENS = (32768, 131072)
"""Padded tokens per batch of the translator."""

SENTENCE = 16
"""Assumed sentence length in tokens for the operation count; attention contributes only about 1 % of it."""

TINY_TRANSLATOR = (
    "model.width=32 model.layers=1 model.heads=2 data.max_rows=60 tokenizer.vocab_size=300"
    " tokenizer.byte_fallback=false data.sentences=200"
).split()


def training(inputs: Inputs) -> Iterator[Figure]:
    """Measure training steps in tokens/s, MFU and peak memory: 124M and 10.7M beside nanoGPT, then the translator."""
    for group in [Group(TINY, 2, (OURS, NANOGPT))] if inputs.dry_run else MAIN:
        yield from measure_group(group, inputs)
    for tokens in (512,) if inputs.dry_run else TRANSLATOR_TOKENS:
        yield from compete([translator(tokens, inputs)], training_figure, inputs.dry_run)


def sizes(inputs: Inputs) -> Iterator[Figure]:
    """Measure training steps of the other models and batch sizes, also beside Hugging Face GPT-2."""
    for group in [Group(TINY, 3, (OURS, HUGGING_FACE))] if inputs.dry_run else SIZES:
        yield from measure_group(group, inputs)


def measure_group(group: Group, inputs: Inputs) -> Iterator[Figure]:
    """Measure all contenders of a group."""
    model, batch, compiled = group.model, group.batch, not inputs.dry_run
    task: dict[str, Any] = {"text": "", "vocabulary": model.vocabulary, "dropout": 0.0, "batch_size": batch}
    task |= {"bf16": True, "compiled": compiled, **model.size}
    settings = own_settings(model, batch, compiled)
    builds: dict[str, tuple[str, dict[str, Any]]] = {
        OURS: ("benchmarks.ours:training", {"settings": settings, "vocabulary": model.vocabulary}),
        NANOGPT: ("benchmarks.peers.gpt:nanogpt", task | {"checkout": inputs.nanogpt}),
        HUGGING_FACE: ("benchmarks.peers.gpt:transformers_gpt2", task),
    }
    contenders = [
        Contender(
            f"{model.name}, {program}, batch {batch} x {model.context}",
            *builds[program],
            ours=program == OURS,
            operations_per_unit=model.operations_per_token,
        )
        for program in group.programs
    ]
    return compete(contenders, training_figure, inputs.dry_run)


def own_settings(model: Model, batch: int, compiled: bool) -> list[str]:
    """Return overrides of `train.py` for GPT-2's architecture in this size, without biases as in nanoGPT."""
    trainer = f"trainer.batch_size={batch} trainer.compile={'on' if compiled else 'off'}"
    return [*f"task=gpt model=gpt2 model.bias=false model.dropout=0 {trainer}".split(), *model_settings(model.size)]


def translator(tokens: int, inputs: Inputs) -> Contender:
    """Return the contender that trains our translator, by its recipe on the given pairs, else on the built-in corpus,
    with a batch of this many padded tokens."""
    settings = ["+experiment=tatoeba", f"data.path={inputs.pairs}"] if inputs.pairs else ["+experiment=demo_enja"]
    settings += ["trainer.compile=off", *TINY_TRANSLATOR] if inputs.dry_run else ["trainer.compile=on"]
    config = composed([*settings, f"data.batch_tokens={tokens}"])
    vocabulary = config.tokenizer.vocab_size
    assert vocabulary is not None  # both experiments set it
    operations = flops_per_token(EncoderDecoder(config.model, vocabulary, vocabulary, shared=True), SENTENCE, SENTENCE)
    arguments = {"settings": [*settings, f"data.batch_tokens={tokens}"]}
    label = f"translator, {OURS}, {tokens} padded tokens"
    return Contender(label, "benchmarks.ours:training", arguments, True, operations)


def training_figure(row: Row) -> Figure:
    """Return the figure of a row: tokens per second, memory and MFU; ours is compared with nanoGPT's row of the same
    batch."""
    assert row.operations is not None
    share = row.operations / PEAK
    facts: dict[str, Any] = {"rate": row.rate, "memory": row.peak_memory, "mfu": share, "rates": row.rates}
    if f", {OURS}, " in row.name:
        facts["rival"] = (row.name.replace(f", {OURS}, ", f", {NANOGPT}, "), NANOGPT)
    text = f"{number(row.rate)} tokens/s, {row.milliseconds:.3g} ms, {row.peak_memory / 1e9:.3g} GB"
    return Figure(row.name, text, f"MFU {100 * share:.3g} %", facts=facts)
