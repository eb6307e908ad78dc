"""Compare training steps of a character GPT with nanoGPT and Hugging Face transformers.

Model and batch sizes are those of nanoGPT's two Shakespeare recipes. The like-for-like comparison uses our trainer with
nanoGPT's architecture (LayerNorm, learned positions, GELU, attention dropout); our default architecture is also listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.contender import Benchmark, Comparison, Contender
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import Shape, absolute, existing, model_settings


@dataclass(frozen=True)
class Recipe(Shape):
    """One of nanoGPT's recipes."""

    title: str
    dropout: float
    batch_size: int
    large_batch: int | None
    """An additional, larger batch size for all contenders; None if the recipe's batch is already large."""


RECIPES = {
    "cpu": Recipe(4, 4, 128, 64, "GPT 4L/4H/128, T=64 (nanoGPT's CPU recipe)", 0.0, 12, 384),
    "baby": Recipe(6, 6, 384, 256, "GPT 6L/6H/384, T=256, dropout 0.2 (nanoGPT's baby GPT)", 0.2, 64, None),
}

SAME = "ours (nanoGPT's architecture)"
SHIPPED = "nanoGPT float32 (as shipped)"


@dataclass
class TrainGPTSettings(MeasureSettings):
    """Settings of `train_gpt`."""

    data: str = "input.txt"
    """A text file; nanoGPT's recipes use tinyshakespeare."""

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's rows are skipped."""

    shape: Literal["cpu", "baby"] = "cpu"
    """`cpu`: nanoGPT's CPU recipe, 0.8M parameters, batch 12. `baby`: its baby GPT, 10.7M parameters, batch 64."""


def train_gpt(settings: TrainGPTSettings) -> None:
    """Measure training steps of a GPT in tokens per second: ours, nanoGPT, transformers."""
    text = existing("data", settings.data)
    measure(benchmark(settings.shape, text, settings.nanogpt), settings)


def benchmark(name: str, text: Path, checkout: str) -> Benchmark:
    """Return the benchmark of one recipe."""
    recipe = RECIPES[name]
    size = recipe.size | {"dropout": recipe.dropout}
    work = {"text": str(text), "batch_size": recipe.batch_size, **size}
    fixed = f"data=text tokenizer=char trainer.compile=off trainer.batch_size={recipe.batch_size}"
    overrides = [*fixed.split(), f"data.path={text}", *model_settings(size)]
    nanogpt_like = "model.norm=layer model.position=learned model.activation=gelu model.qk_norm=false".split()
    same = [*nanogpt_like, f"model.attention_dropout={recipe.dropout}"]
    operations, compiled = operations_per_token(overrides), "trainer.compile=on"

    def ours(label: str, *settings: str) -> Contender:
        return Contender(label, "benchmarks.ours:training", {"settings": [*overrides, *settings]}, True, operations)

    def nanogpt(label: str, **changes: Any) -> Contender:
        arguments = work | {"checkout": absolute(checkout)} | changes
        return Contender(label, "benchmarks.peers.gpt:nanogpt", arguments, False, operations)

    def transformers(label: str, **changes: Any) -> Contender:
        return Contender(label, "benchmarks.peers.gpt:transformers_gpt2", work | changes, False, operations)

    contenders = [
        ours(SAME, *same),
        ours(f"{SAME} compiled", *same, compiled),
        ours("ours"),
        ours("ours compiled", compiled),
        ours("ours with Muon", "optim=muon"),
        nanogpt(SHIPPED),
        nanogpt("nanoGPT float32 compiled", compiled=True),
        nanogpt("nanoGPT bf16 autocast", bf16=True),
        nanogpt("nanoGPT bf16 autocast compiled", bf16=True, compiled=True),
        transformers("transformers GPT-2 float32"),
        transformers("transformers GPT-2 bf16 autocast", bf16=True),
    ]
    if recipe.dropout:
        contenders.insert(2, ours(f"{SAME} without attention dropout", *same, "model.attention_dropout=0"))
    peers = tuple(contender.name for contender in contenders if not contender.ours)
    both, own_ways = (SAME, f"{SAME} compiled"), ("ours", "ours compiled")
    batch = f"batch {recipe.batch_size}"
    comparisons = [
        Comparison(f"{recipe.title}, {batch}: training, against nanoGPT as shipped", both, (SHIPPED,)),
        Comparison("the same, against nanoGPT with bf16 and compile", both, ("nanoGPT bf16 autocast compiled",)),
        Comparison("the same, against the fastest peer", both, peers),
        Comparison("a model of that shape as the project ships it, against nanoGPT as shipped", own_ways, (SHIPPED,)),
    ]
    if recipe.large_batch:
        large, larger_batch = f"batch {recipe.large_batch}", f"trainer.batch_size={recipe.large_batch}"
        larger = (f"{SAME} {large}", f"{SAME} {large} compiled")
        alike = [
            nanogpt(f"nanoGPT {name} {large}{end}", batch_size=recipe.large_batch, bf16=bf16, compiled=compiles)
            for name, bf16 in (("float32", False), ("bf16 autocast", True))
            for end, compiles in (("", False), (" compiled", True))
        ]
        contenders += [
            ours(larger[0], *same, larger_batch),
            ours(larger[1], *same, larger_batch, compiled),
            ours(f"ours {large}", larger_batch),
            ours(f"ours {large} compiled", larger_batch, compiled),
            *alike,
        ]
        what = f"the same model, {large}"
        rivals = tuple(contender.name for contender in alike)
        comparisons += [
            Comparison(f"{what}, against nanoGPT as shipped at its {recipe.batch_size}", larger, (SHIPPED,)),
            Comparison(f"{what}, against the fastest peer at that batch", larger, rivals),
        ]
    title = f"Training steps of a {recipe.title}, {batch} unless said otherwise, AdamW, characters of one text"
    return Benchmark(f"train_gpt_{name}", title, "tokens", tuple(contenders), SAME, tuple(comparisons))


def operations_per_token(settings: list[str]) -> float:
    """Return the training FLOP per token as counted by the project, applied to all contenders of the same size."""
    from benchmarks.ours import composed, prepared_and_model
    from model.size import flops_per_token

    config = composed(settings)
    return flops_per_token(prepared_and_model(config)[1], config.model.context)
