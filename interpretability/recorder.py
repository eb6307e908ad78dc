"""Record the attention of a model on examples (probes, validation rows) without side effects on training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attention_maps.record.arrays import rollouts
from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.example import Example, Pieces
from attention_maps.record.head_measures_and_labels import head_labels, head_measures
from attention_maps.record.recording import Key, Measures, Recording, Sample, Score, tokens
from interpretability.head_behaviours import behaviours_in
from interpretability.predictions import Readout
from interpretability.residual_stream import ResidualStream, record_residual_stream
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import AttentionRecording, record_attention

LARGEST_BATCH = 2**17
"""Maximum size of the maps of a head in one forward pass, in values: 8 examples of 128 tokens."""


def record(
    model: GPT | EncoderDecoder,
    examples: Sequence[Example],
    special_ids: Collection[int],
    step: int,
    *,
    pieces: Pieces | None = None,
    max_tokens: int = 128,
    scores: Sequence[Score] = (),
    measured: Measures | None = None,
    known: Measures | None = None,
    repeated: Tensor | None = None,
    about: Mapping[str, str] | None = None,
) -> Recording:
    """Record every attention map of every example, with losses, the most likely next tokens and head output norms.

    The model runs in eval mode without gradients. The training mode of each module and the random state are restored,
    so recording does not affect training. `model`: the module itself, not the compiled wrapper. `pieces`: method of the
    target tokenizer that converts predicted ids to text; if None, predictions are labelled `#17`. Sides longer than
    `max_tokens` or the model's context are truncated before the forward pass, and the sample is marked `truncated`.
    `scores` and `measured`: results on more examples, stored with the maps; `known`: such results of an earlier
    recording, which only decide the labels of the heads where there are none of this one. `repeated`: random tokens
    from `repeated_tokens`, on which the behaviours of a GPT's heads are measured; reading them together with the
    examples takes a fraction of a forward pass of their own. `about`: see `Recording.about`. Raises ValueError if an
    example does not match the model: a source for a GPT, no source for a translation model, or no tokens.
    """
    device = next(model.parameters()).device
    spell = pieces or (lambda ids: [f"#{token}" for token in ids])
    special = frozenset(special_ids)
    cap = min(max_tokens, model.config.context)
    for example in examples:
        _check(model, example)
    recorded: list[Sample] = []
    behaviours: Measures = {}
    deviation = 0.0
    with undisturbed(model):
        for batch in _batches([example.cut(cap) for example in examples]):
            beside = () if recorded or repeated is None else repeated.cpu().unbind()  # in the first batch
            with record_attention(model) as seen, record_residual_stream(model) as stream:
                logits = model(*_padded(batch, device, beside)).float()  # [B,T,V]
            if beside:
                assert isinstance(model, GPT)
                assert repeated is not None
                behaviours = behaviours_in(_rows(seen, len(batch), repeated.shape[1]), model, repeated)
                length = max(len(example.target_ids) for example in batch)
                stream, logits = stream.first(len(batch), length), logits[: len(batch), :length]
            prediction = Readout(batch, stream, logits, spell)
            deviation = float(torch.tensor([deviation, seen.deviation]).max())  # keeps NaN
            for row, example in enumerate(batch):
                maps = _without_padding(seen, row, example)
                whole = examples[len(recorded)]
                recorded.append(_sample(whole, example, maps, prediction.of(row), special))
    measures = head_measures(recorded) | behaviours | (measured or {})
    labels = head_labels((known or {}) | measures)
    losses = [loss for whole, sample in zip(examples, recorded, strict=True) if not whole.own for loss in sample.losses]
    loss = sum(losses) / len(losses) if losses else None
    parts = tuple(ResidualStream(model).parts())
    return Recording(
        step, tuple(recorded), measures, labels, tuple(scores), deviation, parts, loss, about=dict(about or {})
    )


def _batches(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Divide the examples into batches whose padded maps stay small."""
    batch: list[Example] = []
    longest = 0
    for example in examples:
        length = max(len(example.target_ids), len(example.source_ids or ()))
        if batch and (len(batch) + 1) * max(longest, length) ** 2 > LARGEST_BATCH:
            yield batch
            batch, longest = [], 0
        batch.append(example)
        longest = max(longest, length)
    if batch:
        yield batch


def _padded(batch: Sequence[Example], device: torch.device, beside: Sequence[Tensor]) -> list[Tensor]:
    """Return the arguments of the model, padded at the end with any token. A causal decoder does not attend to padding;
    source padding is masked. `beside`: more rows, for a GPT."""
    rows = [torch.tensor(example.target_ids) for example in batch]
    target = pad_sequence([*rows, *beside], batch_first=True)  # [B,T]
    sources = [torch.tensor(example.source_ids) for example in batch if example.source_ids is not None]
    if not sources:
        return [target.to(device)]
    mask = pad_sequence([torch.ones_like(source) for source in sources], batch_first=True).bool()  # [B,S]
    source = pad_sequence(sources, batch_first=True)
    return [source.to(device), target.to(device), *([] if mask.all() else [mask.to(device)])]


def _rows(seen: AttentionRecording, first: int, length: int) -> AttentionRecording:
    """Return what was recorded of the rows from `first` on, without their padding."""
    return AttentionRecording(
        weights={key: weights[first:, :, :length, :length] for key, weights in seen.weights.items()},
        values={key: values[first:, :, :length] for key, values in seen.values.items()},
    )


def _without_padding(seen: AttentionRecording, row: int, example: Example) -> AttentionRecording:
    """Return what was recorded of one row of a batch, without the axis of the batch."""
    target, source = len(example.target_ids), len(example.source_ids or ())
    recording = AttentionRecording()
    for key, weights in seen.weights.items():
        queries, keys = source if key[0] == "encoder" else target, target if key[0] == "decoder" else source
        recording.weights[key] = weights[row, :, :queries, :keys]  # [H,Q,K]
        recording.outputs[key] = seen.outputs[key][row, :, :queries]  # [H,Q,D]
        recording.value_norms[key] = seen.value_norms[key][row, :, :keys]  # [H,K]
    return recording


def _sample(
    whole: Example, example: Example, seen: AttentionRecording, prediction: dict[str, Any], special: frozenset[int]
) -> Sample:
    return Sample(
        reads=tokens(example.target_ids, example.target_pieces, special),
        predicts=tokens(example.next_ids, example.next_pieces, special),
        source=None if example.source_ids is None else tokens(example.source_ids, example.source_pieces or (), special),
        weights=_halved(seen.weights),
        norms=_halved({key: outputs.norm(dim=-1) for key, outputs in seen.outputs.items()}),
        name=example.name,
        length=len(whole.target_ids),
        source_length=len(whole.source_ids or ()),
        values=_halved(seen.value_norms),
        rollout=rollouts({key: weights.cpu().numpy() for key, weights in seen.weights.items()}),
        links=None if example.links is None else tuple(example.links),
        antecedents=example.antecedents,
        **prediction,
    )


def _check(model: GPT | EncoderDecoder, example: Example) -> None:
    name = f"example '{example.name}'" if example.name else "an example"
    translates, reads, predicts = isinstance(model, EncoderDecoder), len(example.target_ids), len(example.next_ids)
    rules = (
        (not translates or example.source_ids, "has no source tokens, but the model is an encoder-decoder"),
        (translates or example.source_ids is None, "has a source, but the model is a GPT"),
        (reads > 0, "has no tokens to read"),
        (reads - 1 <= predicts <= reads, f"reads {reads} tokens but predicts {predicts}"),
    )
    for holds, problem in rules:
        if not holds:
            raise ValueError(f"{name} {problem}")


def _halved(tensors: dict[Key, Tensor]) -> dict[Key, np.ndarray]:
    """Convert to float16 to halve the file; the maximum error, 2.4e-4, is invisible and hardly changes a measure."""
    return {key: tensor.half().cpu().numpy() for key, tensor in tensors.items()}
