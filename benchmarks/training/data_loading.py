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
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from benchmarks.contender import Benchmark, Comparison, Contender, Step
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import existing_file, existing_folder
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
    text = existing_file("text", settings.text) if settings.text else None
    pairs = existing_folder("pairs", settings.pairs) if settings.pairs else None
    if text:
        measure(windows_benchmark(text), settings)
    if pairs:
        with tempfile.TemporaryDirectory() as temporary:
            measure(pairs_benchmark(pairs, Path(temporary) / "corpus.npz"), settings)


def windows_benchmark(text: Path) -> Benchmark:
    """Return the benchmark of batches of text windows."""
    fixed = f"data=text tokenizer=char model.context={CONTEXT} trainer.batch_size={BATCH_SIZE}"
    contenders = (
        Contender("ours", f"{__name__}:ours", {"settings": [*fixed.split(), f"data.path={text}"]}, True),
        Contender("random slices, stacked (nanoGPT's way)", f"{__name__}:random_slices", {"text": str(text)}),
        Contender("torch DataLoader", f"{__name__}:window_loader", {"text": str(text)}),
    )
    title = f"Batches of {BATCH_SIZE} windows of {CONTEXT} characters"
    comparison = Comparison(title, ("ours",), tuple(one.name for one in contenders[1:]))
    return Benchmark("data_windows", title, "tokens", contenders, "ours", (comparison,))


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
    contenders = (
        Contender("ours", f"{__name__}:ours", {"settings": own}, True),
        Contender("torch DataLoader, padded", f"{__name__}:pair_loader", {"corpus": str(corpus)}),
    )
    title = (
        f"Batches of sentence pairs, {BATCH_TOKENS} padded tokens (ours) or {SENTENCES} random sentences; real tokens"
    )
    comparison = Comparison(title, ("ours",), tuple(one.name for one in contenders[1:]))
    return Benchmark("data_pairs", title, "tokens", contenders, "ours", (comparison,))


def ours(settings: list[str]) -> Step:
    """Return a step that loads a batch from the trainer's stream."""
    from benchmarks.ours import composed
    from data.prepare import prepare

    config = composed(settings)
    prepared = prepare(config.task, config.data, config.tokenizer, config.model.context, config.seed)
    stream = prepared.training(config.trainer.batch_size if config.task == "gpt" else config.data.batch_tokens)
    return lambda: stream.next_batch().tokens


def random_slices(text: str) -> Step:
    """Return a step that converts slices at random positions one by one and stacks them."""
    from benchmarks.peers.gpt import characters, random_windows

    batches = random_windows(characters(text), BATCH_SIZE, CONTEXT)
    return lambda: next(batches)[1].numel()


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Non-overlapping windows as (inputs, targets), each [CONTEXT] int64."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = torch.from_numpy(ids.astype(np.int64))

    def __len__(self) -> int:
        return (len(self.ids) - 1) // CONTEXT

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        first = index * CONTEXT
        return self.ids[first : first + CONTEXT], self.ids[first + 1 : first + CONTEXT + 1]


def loader_step(dataset: Dataset[Any], batch_size: int, count: Any, collate: Any = None) -> Step:
    """Return a step that loads a batch from shuffled epochs of a DataLoader in this process; `count(batch)` returns the
    number of non-padding tokens."""
    loader = DataLoader(dataset, batch_size, shuffle=True, drop_last=True, collate_fn=collate)

    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    return lambda: count(next(batches))


def window_loader(text: str) -> Step:
    """Return a step of torch's DataLoader with default collation."""
    from benchmarks.peers.gpt import characters

    return loader_step(Windows(characters(text)), BATCH_SIZE, lambda batch: batch[1].numel())


class SentencePairs(Dataset[tuple[Tensor, Tensor]]):
    """Rows of a corpus as (source, target) ids, [S] and [T] int64."""

    def __init__(self, corpus: str) -> None:
        from benchmarks.peers.translation import Corpus

        self.corpus = Corpus.load(corpus)

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.corpus.pair(index)


def pair_loader(corpus: str) -> Step:
    """Return a step of torch's DataLoader that pads with `pad_sequence`."""

    def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        sources, targets = ([row[side] for row in rows] for side in (0, 1))
        return pad_sequence(sources, batch_first=True), pad_sequence(targets, batch_first=True)

    def count(batch: tuple[Tensor, Tensor]) -> int:
        return int((batch[0] != 0).sum()) + int((batch[1] != 0).sum())

    return loader_step(SentencePairs(corpus), SENTENCES, count, collate)
