"""Record what every head of a model looks at, without disturbing its training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_maps.record.measures import head_labels, head_measures, rollout
from attention_maps.record.recording import (
    Antecedents,
    Key,
    Link,
    Measures,
    Prediction,
    Recording,
    Sample,
    Score,
    tokens,
)
from model.attention import AttentionRecording, record_attention
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

Pieces = Callable[[list[int]], list[str]]
"""Readable pieces of token ids, one each."""


class Tokenizer(Protocol):
    """What an example needs of a tokenizer."""

    @property
    def bos_id(self) -> int:
        """Begins every target."""

    @property
    def eos_id(self) -> int:
        """Ends every source and target."""

    def pieces(self, ids: list[int]) -> list[str]:
        """Readable pieces of token ids, one each."""


@dataclass(frozen=True)
class Example:
    """One text or pair to record, as ids and as the pieces that will label the map."""

    target_ids: Sequence[int]
    """What the decoder reads."""

    target_pieces: Sequence[str]

    next_ids: Sequence[int]
    """What it should predict at each position; may be one shorter than `target_ids` (the end of a plain text)."""

    next_pieces: Sequence[str]

    source_ids: Sequence[int] | None = None
    """What the encoder reads; None for a GPT."""

    source_pieces: Sequence[str] | None = None

    name: str = ""
    """For titles and menus: `probe 1`, `valid 3`."""

    links: Sequence[Link] | None = None
    """Gold word alignment, where it is known: positions in source and `next_ids`."""

    antecedents: Antecedents | None = None
    """Gold antecedents of pronouns, where they are known."""

    @classmethod
    def text(
        cls, ids: Sequence[int], tokenizer: Tokenizer, name: str = "", antecedents: Antecedents | None = None
    ) -> Example:
        """A running text for a GPT: each token should predict the one after it."""
        reads = list(ids)
        pieces = tokenizer.pieces(reads)
        return cls(reads, pieces, reads[1:], pieces[1:], name=name, antecedents=antecedents)

    @classmethod
    def pair(
        cls,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        name: str = "",
        links: Sequence[Link] | None = None,
        antecedents: Antecedents | None = None,
    ) -> Example:
        """A translation as the model is trained on it: source + eos; bos + target is read, target + eos predicted.

        The ids come without bos and eos. Each side is labelled by its own tokenizer.
        """
        source = [*source_ids, source_tokenizer.eos_id]
        reads, predicts = [target_tokenizer.bos_id, *target_ids], [*target_ids, target_tokenizer.eos_id]
        labels = target_tokenizer.pieces
        return cls(
            reads,
            labels(reads),
            predicts,
            labels(predicts),
            source,
            source_tokenizer.pieces(source),
            name,
            links,
            antecedents,
        )

    def cut(self, length: int) -> Example:
        """The first `length` tokens of each side."""
        return replace(
            self,
            target_ids=self.target_ids[:length],
            target_pieces=self.target_pieces[:length],
            next_ids=self.next_ids[:length],
            next_pieces=self.next_pieces[:length],
            source_ids=None if self.source_ids is None else self.source_ids[:length],
            source_pieces=None if self.source_pieces is None else self.source_pieces[:length],
            links=None if self.links is None else [link for link in self.links if max(link) < length],
            antecedents=None if self.antecedents is None else self.antecedents.cut(length),
        )


def record(
    model: GPT | EncoderDecoder,
    examples: Sequence[Example],
    special_ids: Collection[int],
    step: int,
    *,
    pieces: Pieces | None = None,
    max_tokens: int = 128,
    top: int = 5,
    scores: Sequence[Score] = (),
    measured: Measures | None = None,
) -> Recording:
    """Every attention map of every example, with losses, likeliest next tokens and the heads' output norms.

    The model runs in eval mode without gradients; its training mode, module by module, and the random state are as
    before afterwards, so recording never changes what training does next. `model` is the bare one, not its compiled
    wrapper. Examples run one by one: no padding can leak into a map, and a few short sentences cost little. `pieces`
    spells the predicted tokens (the target tokenizer's method); without it they read `#17`. Sides longer than
    `max_tokens` or the model's context are cut before the model sees them; the sample is then `truncated`. `scores` and
    `measured` are what was measured elsewhere on more examples, to be kept with the maps. Raises ValueError for an
    example that does not fit the model: a source for a GPT, none for a translator, or no tokens.
    """
    device = next(model.parameters()).device
    spell = pieces or (lambda ids: [f"#{token}" for token in ids])
    special = frozenset(special_ids)
    cap = min(max_tokens, model.config.context)
    recorded = []
    deviation = 0.0
    with undisturbed(model):
        for whole in examples:
            _check(model, whole)
            example = whole.cut(cap)
            seen, logits = _forward(model, example, device)
            recorded.append(_sample(whole, example, seen, logits, special, spell, top))
            deviation = float(torch.tensor([deviation, seen.deviation]).max())  # NaN stays
    measures = head_measures(recorded) | (measured or {})
    return Recording(step, tuple(recorded), measures, head_labels(measures), tuple(scores), deviation)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, and afterwards the modes and the random state of before."""
    device = next(model.parameters()).device
    accelerators = [] if device.type == "cpu" else [device]
    kept_random = torch.random.fork_rng(accelerators, device_type="cuda" if device.type == "cpu" else device.type)
    with kept_random, evaluating(model), torch.no_grad():
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each module's own mode again: a frozen part may have been in eval mode before."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _forward(model: GPT | EncoderDecoder, example: Example, device: torch.device) -> tuple[AttentionRecording, Tensor]:
    """What the heads did, and the logits [T,V]."""
    target = torch.tensor([example.target_ids], device=device)  # [1,T]
    with record_attention(model) as seen:
        if example.source_ids is None:
            return seen, model(target)[0].float()
        return seen, model(torch.tensor([example.source_ids], device=device), target)[0].float()


def _sample(
    whole: Example,
    example: Example,
    seen: AttentionRecording,
    logits: Tensor,
    special: frozenset[int],
    spell: Pieces,
    top: int,
) -> Sample:
    expected = torch.tensor(example.next_ids, dtype=torch.long, device=logits.device)
    losses = F.cross_entropy(logits[: len(expected)], expected, reduction="none")
    return Sample(
        reads=tokens(example.target_ids, example.target_pieces, special),
        predicts=tokens(example.next_ids, example.next_pieces, special),
        source=None if example.source_ids is None else tokens(example.source_ids, example.source_pieces or (), special),
        losses=tuple(round(loss, 5) for loss in losses.tolist()),
        predictions=_predictions(logits, spell, top),
        weights=_halved({key: weights[0] for key, weights in seen.weights.items()}),
        norms=_halved({key: outputs[0].norm(dim=-1) for key, outputs in seen.outputs.items()}),
        name=example.name,
        length=len(whole.target_ids),
        source_length=len(whole.source_ids or ()),
        values=_halved({key: values[0] for key, values in seen.values.items()}),
        rollout=_rollouts(seen),
        links=None if example.links is None else tuple(example.links),
        antecedents=example.antecedents,
    )


def _rollouts(seen: AttentionRecording) -> dict[str, np.ndarray]:
    """Rollout of each kind of self-attention, over its layers in order."""
    layers = {
        kind: [seen.weights[key][0].mean(dim=0).cpu().numpy() for key in sorted(seen.weights) if key[0] == kind]
        for kind in ("encoder", "decoder")
    }
    return {kind: rollout(means).astype(np.float16) for kind, means in layers.items() if means}


def _check(model: GPT | EncoderDecoder, example: Example) -> None:
    name = f"example '{example.name}'" if example.name else "an example"
    translates = isinstance(model, EncoderDecoder)
    if translates and not example.source_ids:
        raise ValueError(f"{name} has no source tokens, but the model translates")
    if not translates and example.source_ids is not None:
        raise ValueError(f"{name} has a source, but the model is a GPT")
    if not example.target_ids:
        raise ValueError(f"{name} has no tokens to read")
    if not 0 <= len(example.target_ids) - len(example.next_ids) <= 1:
        raise ValueError(f"{name} reads {len(example.target_ids)} tokens but predicts {len(example.next_ids)}")


def _predictions(logits: Tensor, spell: Pieces, top: int) -> tuple[tuple[Prediction, ...], ...]:
    """The likeliest tokens of each row of `logits` [T,V]."""
    best = logits.softmax(dim=-1).topk(min(top, logits.shape[-1]), dim=-1)
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(
        tuple(Prediction(*parts) for parts in zip(ids, spell(ids), [round(p, 5) for p in chances], strict=True))
        for ids, chances in rows
    )


def _halved(tensors: dict[Key, Tensor]) -> dict[Key, np.ndarray]:
    """As float16: half the file; the largest error, 2.4e-4, is far below what an eye or a measure sees."""
    return {key: tensor.half().cpu().numpy() for key, tensor in tensors.items()}
