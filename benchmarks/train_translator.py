"""Compare training steps of an encoder-decoder with transformers' Marian, `torch.nn.Transformer` and JoeyNMT.

All contenders have the same corpus, vocabulary (of our tokenizer) and model size; each uses its own batching, with
batches of about the same number of tokens. The unit is non-padding tokens of source and target, including eos.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contender import Benchmark, Comparison, Contender
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import existing, model_settings
from data.training_data import Prepared
from model.encoder_decoder import EncoderDecoder

MODEL = {"layers": 3, "heads": 4, "width": 256, "context": 64, "dropout": 0.1}
LABEL_SMOOTHING = 0.1
SENTENCES = {4096: 128, 8192: 256}
"""Sentences per batch of the plain training loops of the peers, by padded tokens per batch of ours, with about the same
number of real tokens in small_parallel_enja."""


@dataclass
class TrainTranslatorSettings(MeasureSettings):
    """Settings of `train_translator`."""

    data: str = "small_parallel_enja"
    """A folder with train.en, train.ja etc."""

    warm_up: float = 12.0
    """Seconds of the first turn of each contender, which is not counted: kernels are built for many batch shapes."""

    seconds: float = 3.0


def train_translator(settings: TrainTranslatorSettings) -> None:
    """Measure training steps of an encoder-decoder in tokens/s: ours, transformers, torch.nn.Transformer, JoeyNMT."""
    folder = existing("data", settings.data, "folder")
    overrides = [
        f"data.path={folder}",
        *"task=translate data=pairs data.source_column=en data.target_column=ja tokenizer.vocab_size=7680".split(),
        *model_settings(MODEL),
        *f"trainer.label_smoothing={LABEL_SMOOTHING} optim=adamw trainer.compile=off".split(),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        measure(benchmark(overrides, Path(temporary) / "pairs.npz"), settings)


def benchmark(overrides: list[str], corpus: Path) -> Benchmark:
    """Return the benchmark; writes the tokenised pairs to `corpus` for the peers."""
    from benchmarks.ours import composed, prepared_and_model

    prepared, model = prepared_and_model(composed(overrides))
    assert isinstance(model, EncoderDecoder)
    operations = write_corpus(prepared, model, corpus)
    vocab_size = prepared.tokenizers[0].vocab_size
    marian_like = "model.norm=layer model.position=sinusoidal model.activation=gelu model.qk_norm=false".split()
    fixed = {"corpus": str(corpus), "vocab_size": vocab_size, "label_smoothing": LABEL_SMOOTHING}
    work: dict[str, Any] = MODEL | fixed

    def ours(label: str, *settings: str) -> Contender:
        return Contender(label, "benchmarks.ours:training", {"settings": [*overrides, *settings]}, True, operations)

    def peer(label: str, function: str, **changes: Any) -> Contender:
        return Contender(label, f"benchmarks.peers.translation:{function}", work | changes, False, operations)

    mine = [
        ours("ours 4096 tokens", "data.batch_tokens=4096"),
        ours("ours 4096 tokens compiled", "data.batch_tokens=4096", "trainer.compile=on"),
        ours("ours 8192 tokens", "data.batch_tokens=8192"),
        ours("ours 8192 tokens compiled", "data.batch_tokens=8192", "trainer.compile=on"),
    ]
    alike = [
        ours(f"ours (Marian's architecture) {tokens} tokens", *marian_like, f"data.batch_tokens={tokens}")
        for tokens in SENTENCES
    ]
    plain = [
        peer(f"{label} {name}, {sentences} sentences", function, bf16=bf16, batch_size=sentences)
        for sentences in SENTENCES.values()
        for label, function in (("transformers Marian", "marian"), ("torch.nn.Transformer", "torch_transformer"))
        for name, bf16 in (("float32", False), ("bf16 autocast", True))
    ]
    joey = peer("JoeyNMT float32", "joeynmt", batch_size=0, batch_tokens=4096)
    layers, width, heads = MODEL["layers"], MODEL["width"], MODEL["heads"]
    shape = f"{layers}+{layers} layers, width {width}, {heads} heads, {vocab_size} shared pieces"
    own_names, alike_names, loops = (tuple(contender.name for contender in group) for group in (mine, alike, plain))
    comparisons = (
        Comparison(f"Encoder-decoder ({shape}): training, against the fastest plain loop", own_names, loops),
        Comparison("the same in Marian's architecture, against the fastest plain loop", alike_names, loops),
        Comparison("the same with batches of 4096 tokens, against JoeyNMT", own_names[:2], (joey.name,)),
    )
    title = (
        f"Training steps of an encoder-decoder ({shape}), dropout {MODEL['dropout']}, label smoothing"
        f" {LABEL_SMOOTHING}, AdamW; plain loops take random batches of"
        f" {' or '.join(map(str, SENTENCES.values()))} sentences; real tokens of both sides"
    )
    return Benchmark("train_translator", title, "tokens", (*mine, *alike, *plain, joey), mine[0].name, comparisons)


def write_corpus(prepared: Prepared, model: EncoderDecoder, path: Path) -> float:
    """Write the training pairs for the peers, as ids with eos -> mean training FLOP per non-padding token."""
    from model.size import training_flops

    flops = functools.cache(functools.partial(training_flops, model))
    sides: dict[str, list[np.ndarray]] = {"source": [], "target": []}
    operations = tokens = 0
    for batch in prepared.evaluation("train", 8192):
        assert batch.source is not None
        for source, target in zip(batch.source.numpy(), batch.targets.numpy(), strict=True):
            pair = {"source": source[source != 0], "target": target[target >= 0]}
            operations += int(flops(len(pair["target"]), len(pair["source"])))
            for side, ids in pair.items():
                sides[side].append(ids.astype(np.uint16))
                tokens += len(ids)
    arrays = {side: np.concatenate(rows) for side, rows in sides.items()}
    arrays |= {f"{side}_offsets": np.cumsum([0, *map(len, rows)]) for side, rows in sides.items()}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return operations / tokens
