"""Compare data loading with the methods of the peers, from the same token ids and without a model.

On a CPU a training step waits for its batch; the result is the number of tokens loaded per second of this wait.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.contender import Benchmark, Comparison, Contender, Step
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import existing
from configs.errors import UserError

BATCH_SIZE, CONTEXT = 64, 256
"""Windows per batch and their length, as in nanoGPT's baby GPT."""

SENTENCES, BATCH_TOKENS = 128, 4096


@dataclass
class DataLoadingSettings(MeasureSettings):
    """Settings of `data`."""

    text: str = ""
    """A text file, to measure batches of character windows."""

    pairs: str = ""
    """A folder with train.en, train.ja etc., to measure batches of sentence pairs."""

    seconds: float = 1.0
    warm_up: float = 1.0


def data_loading(settings: DataLoadingSettings) -> None:
    """Measure loading windows and sentence pairs in tokens per second: ours, nanoGPT's method, torch's DataLoader."""
    if not settings.text and not settings.pairs:
        raise UserError("text= and pairs= are empty: set one to a text file or a folder of sentence pairs")
    text = existing("text", settings.text) if settings.text else None
    pairs = existing("pairs", settings.pairs, "folder") if settings.pairs else None
    if text:
        measure(windows_benchmark(text), settings)
    if pairs:
        with tempfile.TemporaryDirectory() as temporary:
            measure(pairs_benchmark(pairs, Path(temporary) / "pairs.npz"), settings)


def windows_benchmark(text: Path) -> Benchmark:
    """Return the benchmark of batches of text windows."""
    fixed = f"data=text tokenizer=char model.context={CONTEXT} trainer.batch_size={BATCH_SIZE}"
    peers = {"random slices, stacked (nanoGPT's way)": "random_slices", "torch DataLoader": "window_loader"}
    title = f"Batches of {BATCH_SIZE} windows of {CONTEXT} characters"
    return against_ours("data_windows", title, [*fixed.split(), f"data.path={text}"], peers, {"text": str(text)})


def against_ours(
    name: str, title: str, settings: list[str], peers: dict[str, str], arguments: dict[str, str]
) -> Benchmark:
    """Return the benchmark of our data loading with these settings and of the peers, functions of this module."""
    ours = Contender("ours", f"{__name__}:ours", {"settings": settings}, True)
    others = [Contender(label, f"{__name__}:{function}", arguments) for label, function in peers.items()]
    return Benchmark(name, title, "tokens", (ours, *others), "ours", (Comparison(title, ("ours",), tuple(peers)),))


def pairs_benchmark(folder: Path, corpus: Path) -> Benchmark:
    """Return the benchmark of batches of sentence pairs; writes the token ids to `corpus`."""
    from benchmarks.ours import composed, prepared_and_model
    from benchmarks.training.train_translator import MODEL, pair_settings, write_corpus
    from model.encoder_decoder import EncoderDecoder

    sizes = [f"model.context={MODEL['context']}", f"data.batch_tokens={BATCH_TOKENS}"]
    own = [*pair_settings(folder, "en", "ja", 7680), *sizes]
    prepared, model = prepared_and_model(composed(own))
    assert isinstance(model, EncoderDecoder)
    write_corpus(prepared, model, corpus)
    title = (
        f"Batches of sentence pairs, {BATCH_TOKENS} padded tokens (ours) or {SENTENCES} random sentences; real tokens"
    )
    return against_ours("data_pairs", title, own, {"torch DataLoader, padded": "pair_loader"}, {"corpus": str(corpus)})


def ours(settings: list[str]) -> Step:
    """Return a step that loads a batch from the trainer's stream."""
    from benchmarks.ours import composed
    from data.prepare import prepare

    config = composed(settings)
    prepared = prepare(config.task, config.data, config.tokenizer, config.model.context, config.seed)
    stream = prepared.training(config.trainer.batch_size if config.task == "gpt" else config.data.batch_tokens)

    def tokens() -> int:
        batch = stream.next_batch()
        return batch.source_tokens + batch.target_tokens

    return tokens


def random_slices(text: str) -> Step:
    """Return a step that converts slices at random positions one by one and stacks them."""
    from benchmarks.peers.gpt import characters, random_windows

    batches = random_windows(characters(text), BATCH_SIZE, CONTEXT)
    return lambda: next(batches)[1].numel()


def loader_step(dataset: Any, batch_size: int, count: Any, collate: Any = None) -> Step:
    """Return a step that loads a batch from shuffled epochs in this process; `count(batch)` returns its tokens."""
    loader = DataLoader(dataset, batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    return lambda: count(next(batches))


def window_loader(text: str) -> Step:
    """Return a step of torch's DataLoader on non-overlapping windows, with default collation."""
    from benchmarks.peers.gpt import characters

    ids = torch.from_numpy(characters(text).astype(np.int64))
    inputs, targets = (ids[first:].unfold(0, CONTEXT, CONTEXT) for first in (0, 1))  # each [N, CONTEXT]
    windows = TensorDataset(inputs[: len(targets)], targets)
    return loader_step(windows, BATCH_SIZE, lambda batch: batch[1].numel())


def pair_loader(corpus: str) -> Step:
    """Return a step of torch's DataLoader that pads with `pad_sequence`."""
    from benchmarks.peers.translation import Corpus, padded

    def count(batch: tuple[Tensor, Tensor]) -> int:
        return sum(int((side != 0).sum()) for side in batch)

    return loader_step(Corpus(corpus), SENTENCES, count, padded)
