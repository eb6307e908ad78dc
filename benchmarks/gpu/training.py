"""Compare training steps of four models with nanoGPT and Hugging Face GPT-2, all compiled.

All GPTs have GPT-2's architecture (LayerNorm, learned positions, GELU, tied embeddings; biases only in Hugging Face's)
without dropout, and read the same tokens, drawn from a Zipf distribution over a vocabulary of the original size. MFU
counts 6 N + 12 L T C operations per token for all of them, N = 12 L C² + V C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Benchmark, Contender
from benchmarks.gpu.figures import Figure, StageSettings, stage
from benchmarks.gpu.turns import ENVIRONMENT, PEAK, measured
from benchmarks.inputs import absolute
from benchmarks.report import number
from benchmarks.results import Result, Row
from benchmarks.shape import model_settings
from benchmarks.training.projection import Model


@dataclass(frozen=True)
class Rows:
    """A model, and the batch sizes of each contender, in sequences."""

    model: Model
    ours: tuple[int, ...]
    nanogpt: tuple[int, ...]
    hugging_face: tuple[int, ...]


TRAINED = (
    Rows(Model(12, 12, 768, 1024, 50257, "124M"), (32, 64), (32, 64), (32,)),
    Rows(Model(12, 6, 768, 1024, 50257, "124M, 6 heads of 128"), (64,), (), ()),
    Rows(Model(24, 16, 1024, 1024, 50257, "350M"), (32,), (32,), (16,)),
    Rows(Model(6, 6, 384, 256, 65, "10.7M"), (64, 512), (64, 512), (512,)),
)
TINY = (Rows(Model(1, 2, 32, 32, 100, "tiny"), (2,), (2,), (2,)),)

TRANSLATOR_TOKENS = (32768, 131072)
"""Padded tokens per batch of the translator."""

SENTENCE = 16
"""Assumed sentence length in tokens for the operation count; attention contributes only about 1 % of it."""

TINY_TRANSLATOR = (
    "model.width=32 model.layers=1 model.heads=2 data.max_rows=60 tokenizer.vocab_size=300"
    " tokenizer.byte_fallback=false data.sentences=200"
).split()


@stage
def training(settings: StageSettings) -> Iterator[Figure]:
    """Measure training steps in tokens/s, MFU and peak memory: ours, nanoGPT, Hugging Face."""
    contenders = [one for rows in (TINY if settings.dry_run else TRAINED) for one in of_model(rows, settings)]
    contenders += translators(settings)
    benchmark = Benchmark("gpu_training", "Training steps", "tokens", tuple(contenders), contenders[0].name)
    result = measured(benchmark, settings)
    yield from (line(row, result, settings.peak) for row in result.rows)


def of_model(rows: Rows, settings: StageSettings) -> list[Contender]:
    """Return all contenders for one model; the first is ours."""
    model, compiled = rows.model, not settings.dry_run
    work = {"text": "", "vocabulary": model.vocabulary, "dropout": 0.0, "bf16": True, "compiled": compiled} | model.size

    def contender(who: str, build: str, batch: int, arguments: dict[str, Any]) -> Contender:
        facts = {"batch": batch, **model.size, "parameters": model.parameters}
        name = f"{model.name}, {who}, batch {batch} x {model.context}"
        return Contender(name, build, arguments, who == "ours", model.operations_per_token, facts, ENVIRONMENT)

    def ours(batch: int) -> Contender:
        arguments = {"settings": own_settings(model, batch, compiled), "vocabulary": model.vocabulary}
        return contender("ours", "benchmarks.ours:training", batch, arguments)

    def nanogpt(batch: int) -> Contender:
        arguments = work | {"batch_size": batch, "checkout": absolute(settings.nanogpt)}
        return contender("nanoGPT", "benchmarks.peers.gpt:nanogpt", batch, arguments)

    def hugging_face(batch: int) -> Contender:
        arguments = work | {"batch_size": batch}
        return contender("Hugging Face GPT-2", "benchmarks.peers.gpt:transformers_gpt2", batch, arguments)

    return [*map(ours, rows.ours), *map(nanogpt, rows.nanogpt), *map(hugging_face, rows.hugging_face)]


def own_settings(model: Model, batch: int, compiled: bool) -> list[str]:
    """Return overrides of `train.py` for GPT-2's architecture in this size, without biases as in nanoGPT."""
    trainer = f"trainer.batch_size={batch} trainer.compile={'on' if compiled else 'off'}"
    return [*f"task=gpt model=gpt2 model.bias=false model.dropout=0 {trainer}".split(), *model_settings(model.size)]


def translators(settings: StageSettings) -> list[Contender]:
    """Return contenders for our translator, trained by its recipe on the given pairs or on the built-in corpus."""
    from benchmarks.ours import composed
    from model.encoder_decoder import EncoderDecoder
    from model.size import flops_per_token

    pairs = absolute(settings.pairs)
    own = ["+experiment=tatoeba", f"data.path={pairs}"] if pairs else ["+experiment=demo_enja"]
    own += ["trainer.compile=off", *TINY_TRANSLATOR] if settings.dry_run else ["trainer.compile=on"]
    config = composed(own)
    vocabulary = config.tokenizer.vocab_size
    assert vocabulary is not None  # both experiments set it
    operations = flops_per_token(EncoderDecoder(config.model, vocabulary, vocabulary, shared=True), SENTENCE)
    return [
        Contender(
            f"translator, ours, {tokens} padded tokens",
            "benchmarks.ours:training",
            {"settings": [*own, f"data.batch_tokens={tokens}"]},
            True,
            operations,
            {"batch": tokens},
            ENVIRONMENT,
        )
        for tokens in ((512,) if settings.dry_run else TRANSLATOR_TOKENS)
    ]


def line(row: Row, result: Result, peak: float) -> Figure:
    """Return a row with tokens per second, memory, MFU and, for our rows, the ratio to nanoGPT's fastest row."""
    if not row.measured:
        return Figure(row.name, status=row.status, facts=dict(row.facts))
    assert row.operations is not None
    shares = [f"MFU {100 * row.operations / PEAK:.3g} %"]
    if peak:
        shares.append(f"{100 * row.operations / peak:.3g} % of peak")
    if ", ours, " in row.name:
        model = row.name.partition(", ")[0]
        rivals = [one.name for one in result.rows if one.name.startswith(f"{model}, nanoGPT")]
        if rival := result.fastest(rivals):
            shares.append(
                f"{row.rate / rival.rate:.2f} x nanoGPT's best, {row.peak_memory / rival.peak_memory:.2f} x its memory"
            )
    facts = dict(row.facts) | {
        "tokens_per_second": row.rate,
        "milliseconds": row.milliseconds,
        "mfu": row.operations / PEAK,
        "peak_memory": row.peak_memory,
        "set_up_seconds": row.set_up_seconds,
        "rates": row.rates,
    }
    shown = f"{number(row.rate)} tokens/s, {row.milliseconds:.3g} ms, {row.peak_memory / 1e9:.3g} GB"
    return Figure(row.name, shown, ", ".join(shares), facts=facts)
