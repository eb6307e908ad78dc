"""Train an encoder-decoder with MarianMTModel of transformers, `torch.nn.Transformer`, and JoeyNMT.

The first two run in a plain training loop: random batches of sentences, padded to the longest sentence. JoeyNMT's
model, loss and batch class run in a loop with the same steps as its trainer and its default batches: random sentences
up to 4096 padded tokens on one side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contender import Step
from benchmarks.device import device
from benchmarks.peers.gpt import BETAS, CLIP, LEARNING_RATE, WEIGHT_DECAY, precision

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
"""Ids of the special tokens in the project's tokenizer."""

IGNORED = -100


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs as token ids. Sentence i of a side is `ids[offsets[i] : offsets[i + 1]]` and ends with eos."""

    source: np.ndarray
    source_offsets: np.ndarray
    target: np.ndarray
    target_offsets: np.ndarray

    @classmethod
    def load(cls, path: str) -> Corpus:
        """Load an .npz file, written by `train_translator`, with arrays of these names."""
        with np.load(path) as arrays:
            return cls(**arrays)

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def lengths(self) -> np.ndarray:
        """Return the length of the longer side of each pair, [number of pairs] int."""
        return np.maximum(np.diff(self.source_offsets), np.diff(self.target_offsets))

    def pair(self, row: int) -> tuple[Tensor, Tensor]:
        """Return source [S] and target [T] of one row, int64."""
        source = self.source[self.source_offsets[row] : self.source_offsets[row + 1]]
        target = self.target[self.target_offsets[row] : self.target_offsets[row + 1]]
        return torch.from_numpy(source.astype(np.int64)), torch.from_numpy(target.astype(np.int64))

    def padded(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return sources [B, S] and targets [B, T] int64, padded to the longest sentence of the batch."""
        sources, targets = zip(*map(self.pair, rows), strict=True)
        padded = [nn.utils.rnn.pad_sequence(list(side), batch_first=True) for side in (sources, targets)]
        return padded[0].to(device()), padded[1].to(device())


def random_rows(count: int, batch_size: int) -> Iterator[np.ndarray]:
    """Yield the row numbers of batches without end; each row occurs at most once per epoch."""
    random = np.random.default_rng(1)
    while True:
        order = random.permutation(count)
        yield from (order[first : first + batch_size] for first in range(0, count - batch_size + 1, batch_size))


def after_bos(targets: Tensor) -> Tensor:
    """Return the decoder inputs: the targets shifted right by one, starting with bos."""
    return torch.cat((torch.full_like(targets[:, :1], BOS), targets[:, :-1]), dim=1)


@dataclass(frozen=True)
class Task:
    """Model size and training data, common to all peers."""

    corpus: str
    vocab_size: int
    layers: int
    heads: int
    width: int
    context: int
    dropout: float
    label_smoothing: float
    batch_size: int
    """Sentences per batch of the plain loop."""
    batch_tokens: int = 0
    """Padded tokens on one side per batch of JoeyNMT."""
    bf16: bool = False
    """Use autocast to bf16."""

    def loop(self, model: nn.Module, logits_of: Callable[[Tensor, Tensor], Tensor]) -> Step:
        """Return a step: one AdamW update on random sentences, counted in non-padding tokens of both sides."""
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY)
        corpus = Corpus.load(self.corpus)
        batches = random_rows(len(corpus), self.batch_size)

        def step() -> int:
            source, target = corpus.padded(next(batches))
            with precision(self.bf16):
                logits = logits_of(source, after_bos(target))
                asked = target.masked_fill(target == PAD, IGNORED)
                loss = F.cross_entropy(logits.flatten(0, 1), asked.flatten(), label_smoothing=self.label_smoothing)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return int((source != PAD).sum()) + int((target != PAD).sum())

        return step


def marian_model(vocab_size: int, layers: int, heads: int, width: int, context: int, dropout: float) -> Any:
    """Create a MarianMTModel on the device of all contenders, with one embedding for source, target and output."""
    from transformers import MarianConfig, MarianMTModel

    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": 4 * width}
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=width,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()},
        dropout=dropout,
        use_cache=False,
        max_position_embeddings=context,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).to(device())


def marian(**values: Any) -> Step:
    """Return a training step of MarianMTModel."""
    task = Task(**values)
    torch.manual_seed(1)
    model = marian_model(task.vocab_size, task.layers, task.heads, task.width, task.context, task.dropout)

    def logits(source: Tensor, inputs: Tensor) -> Tensor:
        found: Tensor = model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs).logits
        return found

    return task.loop(model, logits)


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` with a tied embedding and sinusoidal positions added."""

    positions: Tensor

    def __init__(self, vocab_size: int, layers: int, heads: int, width: int, context: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        angles = torch.arange(context)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1))

    def embed(self, ids: Tensor) -> Tensor:
        """Embed ids [B, T] int64 -> vectors [B, T, C]."""
        scaled = self.embedding(ids) * self.embedding.embedding_dim**0.5
        return self.dropout(scaled + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """Compute logits [B, T, V] from source [B, S] and inputs [B, T], int64."""
        padding = source == PAD
        length = inputs.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        decoded = self.transformer(
            self.embed(source),
            self.embed(inputs),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(decoded, self.embedding.weight)


def torch_transformer(**values: Any) -> Step:
    """Return a training step of `torch.nn.Transformer`."""
    task = Task(**values)
    torch.manual_seed(1)
    model = PlainTransformer(task.vocab_size, task.layers, task.heads, task.width, task.context, task.dropout)
    model.to(device())
    return task.loop(model, model)


def joeynmt(**values: Any) -> Step:
    """Return a training step of JoeyNMT 2 with float32, Adam and loss per token, as in its small transformer recipe."""
    from joeynmt.batch import Batch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    task = Task(**values)
    torch.manual_seed(1)
    names = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "sep": None}
    ids = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": None}
    special = SimpleNamespace(**{f"{name}_token": text for name, text in names.items()}, **ids, lang_tags=[])
    vocabulary = Vocabulary([f"piece{number}" for number in range(4, task.vocab_size)], special)
    side = {
        "type": "transformer",
        "num_layers": task.layers,
        "num_heads": task.heads,
        "hidden_size": task.width,
        "ff_size": 4 * task.width,
        "dropout": task.dropout,
        "embeddings": {"embedding_dim": task.width, "scale": True, "dropout": task.dropout},
    }
    shape = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
    model = build_model(shape, vocabulary, vocabulary).to(device())
    model.loss_function = ("crossentropy", task.label_smoothing)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=BETAS)
    pairs = Corpus.load(task.corpus)
    batches = token_batches(pairs.lengths(), task.batch_tokens)
    # JoeyNMT's vocabulary starts with <unk>, <pad>; ours starts with <pad>, <unk>.
    swapped = torch.arange(task.vocab_size, device=device())
    swapped[:2] = torch.tensor([1, 0])

    def step() -> int:
        rows = next(batches)
        source, target = (swapped[side] for side in pairs.padded(rows))
        target = torch.cat((torch.full_like(target[:, :1], special.bos_id), target), dim=1)
        lengths = (source != special.pad_id).sum(dim=1)
        numbers = torch.from_numpy(rows)
        batch = Batch(source, lengths, None, target, None, numbers, device(), special.pad_id, special.eos_id)
        batch.sort_by_src_length()
        loss = model(return_type="loss", **vars(batch))[0]
        batch.normalize(loss, normalization="tokens").backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        model.zero_grad()
        return int(lengths.sum()) + int(batch.ntokens)

    return step


def token_batches(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Yield batches of random rows, each complete when its longest length times its size reaches `budget` tokens."""
    random = np.random.default_rng(1)
    while True:
        batch: list[int] = []
        longest = 0
        for row in random.permutation(len(lengths)):
            batch.append(int(row))
            longest = max(longest, int(lengths[row]))
            if longest * len(batch) >= budget:
                yield np.array(batch)
                batch, longest = [], 0
