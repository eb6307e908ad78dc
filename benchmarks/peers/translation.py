"""Peers that train an encoder-decoder: MarianMTModel of transformers, `torch.nn.Transformer`, and JoeyNMT.

The first two in the loop that their users write: random batches of sentences, padded to the longest. JoeyNMT's model,
loss and batch in a loop that does what its trainer does in a step, with its default batches: random sentences until
4096 padded tokens of one side are full.
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
from benchmarks.peers.gpt import BETAS, CLIP, LEARNING_RATE, WEIGHT_DECAY, device, precision

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
"""Numbers of the special tokens, as the project's tokenizer gives them."""

IGNORED = -100


@dataclass(frozen=True)
class Corpus:
    """Sentences as ids; sentence i of a side is `ids[offsets[i] : offsets[i + 1]]` and ends with eos."""

    source: np.ndarray
    source_offsets: np.ndarray
    target: np.ndarray
    target_offsets: np.ndarray

    @classmethod
    def load(cls, path: str) -> Corpus:
        """What `train_translator` wrote: one .npz with arrays of these names."""
        with np.load(path) as arrays:
            return cls(**arrays)

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def lengths(self) -> np.ndarray:
        """Of the longer side of each pair."""
        return np.maximum(np.diff(self.source_offsets), np.diff(self.target_offsets))

    def padded(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Sources [B, S] and targets [B, T] int64, padded to the longest of the batch."""
        sides = ((self.source, self.source_offsets), (self.target, self.target_offsets))
        found = [
            nn.utils.rnn.pad_sequence(
                [torch.from_numpy(ids[offsets[row] : offsets[row + 1]].astype(np.int64)) for row in rows],
                batch_first=True,
            )
            for ids, offsets in sides
        ]
        return found[0].to(device()), found[1].to(device())


def random_rows(count: int, batch_size: int) -> Iterator[np.ndarray]:
    """Row numbers of endless batches; every row once per epoch."""
    random = np.random.default_rng(1)
    while True:
        order = random.permutation(count)
        yield from (order[first : first + batch_size] for first in range(0, count - batch_size + 1, batch_size))


def after_bos(targets: Tensor) -> Tensor:
    """What the decoder reads: the targets moved right by one, bos first."""
    return torch.cat((torch.full_like(targets[:, :1], BOS), targets[:, :-1]), dim=1)


def training_loop(
    model: nn.Module,
    corpus: Corpus,
    batch_size: int,
    label_smoothing: float,
    bf16: bool,
    logits_of: Callable[[Tensor, Tensor], Tensor],
) -> Step:
    """One AdamW update per step on random sentences, counted in real tokens of both sides."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY)
    batches = random_rows(len(corpus), batch_size)

    def step() -> int:
        source, target = corpus.padded(next(batches))
        with precision(bf16):
            logits = logits_of(source, after_bos(target))
            asked = target.masked_fill(target == PAD, IGNORED)
            loss = F.cross_entropy(logits.flatten(0, 1), asked.flatten(), label_smoothing=label_smoothing)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return int((source != PAD).sum()) + int((target != PAD).sum())

    return step


def marian(
    corpus: str,
    vocab_size: int,
    layers: int,
    heads: int,
    width: int,
    context: int,
    dropout: float,
    label_smoothing: float,
    batch_size: int,
    bf16: bool = False,
) -> Step:
    """MarianMTModel: one embedding for source, target and output."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        dropout=dropout,
        use_cache=False,
        max_position_embeddings=context,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    model: nn.Module = MarianMTModel(config)
    model.to(device())

    def logits(source: Tensor, inputs: Tensor) -> Tensor:
        found: Tensor = model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs).logits
        return found

    return training_loop(model, Corpus.load(corpus), batch_size, label_smoothing, bf16, logits)


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` with what it lacks: one tied embedding and sinusoidal positions."""

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
        """ids [B, T] to vectors [B, T, C]."""
        scaled = self.embedding(ids) * self.embedding.embedding_dim**0.5
        return self.dropout(scaled + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """source [B, S], inputs [B, T] to logits [B, T, V]."""
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


def torch_transformer(
    corpus: str,
    vocab_size: int,
    layers: int,
    heads: int,
    width: int,
    context: int,
    dropout: float,
    label_smoothing: float,
    batch_size: int,
    bf16: bool = False,
) -> Step:
    """`torch.nn.Transformer`."""
    torch.manual_seed(1)
    model = PlainTransformer(vocab_size, layers, heads, width, context, dropout).to(device())
    return training_loop(model, Corpus.load(corpus), batch_size, label_smoothing, bf16, model)


def joeynmt(
    corpus: str,
    vocab_size: int,
    layers: int,
    heads: int,
    width: int,
    dropout: float,
    label_smoothing: float,
    batch_tokens: int,
    **_: Any,
) -> Step:
    """JoeyNMT 2: float32, Adam, loss per token, as in its small transformer recipe."""
    from joeynmt.batch import Batch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    torch.manual_seed(1)
    special = SimpleNamespace(
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        lang_tags=[],
        sep_id=None,
        unk_id=0,
        pad_id=1,
        bos_id=2,
        eos_id=3,
    )
    vocabulary = Vocabulary([f"piece{number}" for number in range(4, vocab_size)], special)
    side = {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": heads,
        "hidden_size": width,
        "ff_size": 4 * width,
        "dropout": dropout,
        "embeddings": {"embedding_dim": width, "scale": True, "dropout": dropout},
    }
    shape = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
    model = build_model(shape, vocabulary, vocabulary).to(device())
    model.loss_function = ("crossentropy", label_smoothing)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=BETAS)
    pairs = Corpus.load(corpus)
    batches = token_batches(pairs.lengths(), batch_tokens)
    # Its vocabulary wants <unk> first and <pad> second; ours is the other way round.
    swapped = torch.arange(vocab_size, device=device())
    swapped[:2] = torch.tensor([1, 0])

    def step() -> int:
        rows = next(batches)
        source, target = (swapped[side] for side in pairs.padded(rows))
        target = torch.cat((torch.full_like(target[:, :1], special.bos_id), target), dim=1)
        lengths = (source != special.pad_id).sum(dim=1)
        batch = Batch(
            source, lengths, None, target, None, torch.from_numpy(rows), device(), special.pad_id, special.eos_id
        )
        batch.sort_by_src_length()
        loss = model(return_type="loss", **vars(batch))[0]
        batch.normalize(loss, normalization="tokens").backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        model.zero_grad()
        return int(lengths.sum()) + int(batch.ntokens)

    return step


def token_batches(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Random rows until the longest times their number reaches the budget."""
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
