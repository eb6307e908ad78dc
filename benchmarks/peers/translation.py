"""Train an encoder-decoder with MarianMTModel of transformers, `torch.nn.Transformer`, and JoeyNMT.

The first two run in a plain training loop: random batches of sentences, padded to the longest sentence. JoeyNMT's
model, loss and batch class run in a loop with the same steps as its trainer and its default batches: random sentences
up to 4096 padded tokens on one side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contender import Step
from benchmarks.device import device
from benchmarks.inputs import Shape
from benchmarks.peers.gpt import BETAS, LEARNING_RATE, adamw, training_step

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
"""Ids of the special tokens in the project's tokenizer."""

IGNORED = -100


Pair = tuple[np.ndarray, np.ndarray]
"""Source and target of a sentence pair, each [length] uint16, ending with eos."""


class Corpus:
    """The sentence pairs written by `train_translator`. Sentence i of a side is `ids[offsets[i] : offsets[i + 1]]`:
    flat arrays, since one array per sentence would raise the measured memory of the peers."""

    def __init__(self, path: str) -> None:
        with np.load(path) as arrays:
            self.sides = [(arrays[side], arrays[f"{side}_offsets"]) for side in ("source", "target")]

    def __len__(self) -> int:
        return len(self.sides[0][1]) - 1

    def __getitem__(self, row: int) -> Pair:
        source, target = (ids[offsets[row] : offsets[row + 1]] for ids, offsets in self.sides)
        return source, target


def padded(pairs: Iterable[Pair]) -> tuple[Tensor, ...]:
    """Return sources [B, S] and targets [B, T] int64, padded to the longest sentence of the batch."""
    sides = ([torch.from_numpy(ids.astype(np.int64)) for ids in side] for side in zip(*pairs, strict=True))
    return tuple(nn.utils.rnn.pad_sequence(side, batch_first=True) for side in sides)


def random_batches(pairs: Corpus, batch_size: int) -> Iterator[list[Pair]]:
    """Yield endless random batches of pairs; each pair occurs at most once per epoch."""
    random = np.random.default_rng(1)
    while True:
        order = random.permutation(len(pairs))
        for first in range(0, len(pairs) - batch_size + 1, batch_size):
            yield [pairs[row] for row in order[first : first + batch_size]]


@dataclass(frozen=True)
class Task(Shape):
    """Model size and training data, common to all peers."""

    corpus: str
    vocab_size: int
    dropout: float
    label_smoothing: float
    batch_size: int
    """Sentences per batch of the plain loop."""
    batch_tokens: int = 0
    """Padded tokens on one side per batch of JoeyNMT."""
    bf16: bool = False
    """Use autocast to bf16."""

    def step(self, model: nn.Module, logits_of: Callable[[Tensor, Tensor], Tensor]) -> Step:
        """Return a training step with AdamW on random sentences, counted in non-padding tokens of both sides."""
        optimizer = adamw(model.parameters())

        def loss(pairs: list[Pair]) -> tuple[Tensor, int]:
            source, target = (side.to(device()) for side in padded(pairs))
            inputs = torch.cat((torch.full_like(target[:, :1], BOS), target[:, :-1]), dim=1)
            labels = target.masked_fill(target == PAD, IGNORED).flatten()
            logits = logits_of(source, inputs).flatten(0, 1)
            tokens = int((source != PAD).sum()) + int((target != PAD).sum())
            return F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing), tokens

        batches = random_batches(Corpus(self.corpus), self.batch_size)
        return training_step(model, optimizer, batches, loss, self.bf16)


def marian_model(
    vocab_size: int, layers: int, heads: int, width: int, context: int, dropout: float, use_cache: bool = False
) -> Any:
    """Create a MarianMTModel with one embedding for source, target and output, scaled as in the published models.

    Without that, the sinusoidal positions drown the embeddings, whose standard deviation is 0.02 at the start.
    """
    from transformers import MarianConfig, MarianMTModel

    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": 4 * width}
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=width,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()},
        dropout=dropout,
        scale_embedding=True,
        use_cache=use_cache,
        max_position_embeddings=context,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def marian(**values: Any) -> Step:
    """Return a training step of MarianMTModel."""
    task = Task(**values)
    torch.manual_seed(1)
    model = marian_model(task.vocab_size, task.layers, task.heads, task.width, task.context, task.dropout)
    model.to(device())

    def logits(source: Tensor, inputs: Tensor) -> Tensor:
        output = model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs)
        scores: Tensor = output.logits
        return scores

    return task.step(model, logits)


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
    return task.step(model, model)


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
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=BETAS)
    # JoeyNMT's vocabulary starts with <unk>, <pad>; ours starts with <pad>, <unk>.
    swapped = torch.arange(task.vocab_size, device=device())
    swapped[:2] = torch.tensor([1, 0])

    def loss(pairs: list[Pair]) -> tuple[Tensor, int]:
        source, target = (swapped[side.to(device())] for side in padded(pairs))
        target = torch.cat((torch.full_like(target[:, :1], special.bos_id), target), dim=1)
        lengths = (source != special.pad_id).sum(dim=1)
        numbers = torch.arange(len(pairs))
        batch = Batch(source, lengths, None, target, None, numbers, device(), special.pad_id, special.eos_id)
        batch.sort_by_src_length()
        total = model(return_type="loss", **vars(batch))[0]
        return batch.normalize(total, normalization="tokens"), int(lengths.sum()) + int(batch.ntokens)

    return training_step(model, optimizer, token_batches(Corpus(task.corpus), task.batch_tokens), loss)


def token_batches(pairs: Corpus, budget: int) -> Iterator[list[Pair]]:
    """Yield random batches, each complete when its longest length times its size reaches `budget` tokens."""
    random = np.random.default_rng(1)
    while True:
        batch: list[Pair] = []
        longest = 0
        for row in random.permutation(len(pairs)):
            batch.append(pairs[row])
            longest = max(longest, *map(len, pairs[row]))
            if longest * len(batch) >= budget:
                yield batch
                batch, longest = [], 0
