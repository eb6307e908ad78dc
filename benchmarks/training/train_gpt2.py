"""Compare training steps of GPT-2 124M with llm.c and Hugging Face transformers, in batches of 4 x 64 tokens as in
llm.c's `train_gpt2.c`.

llm.c is compiled here and measured like any other peer. The figures that its authors and users published come from
other machines: they are listed with machine and source, and no ratio is formed with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Benchmark, Comparison, Contender, Published
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import absolute
from benchmarks.shape import Shape, model_settings

SHAPE = Shape(12, 12, 768, 64)
VOCABULARY, BATCH = 50257, 4
TITLE = f"GPT-2 124M (12L/12H/768, vocabulary {VOCABULARY}), batch {BATCH} x {SHAPE.context} tokens"

PUBLISHED = (
    Published(
        "llm.c on an Apple M3 Max, OMP_NUM_THREADS=8",
        (1288.673, 1452.121),
        BATCH * SHAPE.context,
        "README.md of github.com/karpathy/llm.c, 5 printed steps",
    ),
    Published(
        "llm.c on an AMD Ryzen 5 3600",
        (2708.045790,),
        BATCH * SHAPE.context,
        "github.com/karpathy/llm.c/pull/142, first step",
    ),
    Published(
        "llm.c on an Intel Core i3-9100F",
        (10418.548668,),
        BATCH * SHAPE.context,
        "github.com/karpathy/llm.c/pull/142, first step",
    ),
)


@dataclass
class TrainGPT2Settings(MeasureSettings):
    """Settings of `train_gpt2`."""

    llmc: str = ""
    """A checkout of llm.c, which a C compiler with OpenMP compiles; if empty, its measured row is skipped."""


def train_gpt2(settings: TrainGPT2Settings) -> None:
    """Measure training steps of GPT-2 124M in tokens per second: ours, llm.c, transformers."""
    measure(benchmark(settings.llmc), settings)


def benchmark(checkout: str) -> Benchmark:
    """Return the benchmark."""
    work = {**SHAPE.size, "batch_size": BATCH, "vocabulary": VOCABULARY}
    architecture = "task=gpt model=gpt2 model.activation=gelu_tanh model.bias=true model.dropout=0 optim=adamw"
    own = [*architecture.split(), f"trainer.batch_size={BATCH}", *model_settings(SHAPE.size)]
    operations = operations_per_token(own)

    def ours(label: str, precision: str, compile_: str = "off") -> Contender:
        settings = [*own, f"trainer.precision={precision}", f"trainer.compile={compile_}"]
        arguments = {"settings": settings, "vocabulary": VOCABULARY}
        return Contender(label, "benchmarks.ours:training", arguments, True, operations)

    def peer(label: str, build: str, **arguments: Any) -> Contender:
        return Contender(label, f"benchmarks.peers.{build}", work | arguments, False, operations)

    loop: dict[str, Any] = {"text": "", "dropout": 0.0}
    contenders = (
        ours("ours float32", "float32"),
        ours("ours float32 compiled", "float32", "on"),
        ours("ours bf16", "bf16"),
        ours("ours bf16 compiled", "bf16", "on"),
        peer("llm.c float32", "llmc:llmc", checkout=absolute(checkout)),
        *(
            peer(f"transformers GPT-2 {name}", "gpt:transformers_gpt2", **loop, bf16=bf16, compiled=compiled)
            for name, bf16, compiled in (
                ("float32", False, False),
                ("float32 compiled", False, True),
                ("bf16 autocast", True, False),
                ("bf16 autocast compiled", True, True),
            )
        ),
    )
    mine = tuple(one.name for one in contenders if one.ours)
    full, fastest_peers = mine[:2], tuple(one.name for one in contenders if not one.ours)
    comparisons = (
        Comparison(f"{TITLE}: training in float32, against llm.c on this machine", full, ("llm.c float32",)),
        Comparison("the same in the fastest number format", mine, ("llm.c float32",)),
        Comparison("the same, against the fastest peer", mine, fastest_peers),
    )
    title = f"Training steps of {TITLE}, AdamW, tokens of a Zipf distribution"
    return Benchmark("train_gpt2", title, "tokens", contenders, mine[0], comparisons, PUBLISHED)


def operations_per_token(settings: list[str]) -> float:
    """Return the training FLOP per token as counted by the project, applied to all contenders."""
    import torch

    from benchmarks.ours import composed
    from model.gpt import GPT
    from model.size import flops_per_token

    with torch.device("meta"):
        return flops_per_token(GPT(composed(settings).model, VOCABULARY), SHAPE.context)
