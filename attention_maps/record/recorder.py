"""Record the attention of a model on examples (probes, validation rows) without side effects on training."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_maps.record.example import Example, Pieces
from attention_maps.record.measures import head_labels, head_measures, rollout
from attention_maps.record.recording import KINDS, Key, Measures, Prediction, Recording, Sample, Score, tokens
from attention_maps.record.undisturbed import undisturbed
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import AttentionRecording, record_attention

PREDICTIONS = 5
"""Number of predicted tokens recorded per row."""


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
) -> Recording:
    """Record every attention map of every example, with losses, the most likely next tokens and head output norms.

    The model runs in eval mode without gradients. The training mode of each module and the random state are restored,
    so recording does not affect training. `model`: the module itself, not the compiled wrapper. Examples run one at a
    time, so that no padding enters a map. `pieces`: method of the target tokenizer that converts predicted ids to text;
    if None, predictions are labelled `#17`. Sides longer than `max_tokens` or the model's context are truncated before
    the forward pass, and the sample is marked `truncated`. `scores` and `measured`: results on more examples, stored
    with the maps. Raises ValueError if an example does not match the model: a source for a GPT, no source for a
    translation model, or no tokens.
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
            sides = (ids for ids in (example.source_ids, example.target_ids) if ids is not None)
            with record_attention(model) as seen:
                logits = model(*(torch.tensor([ids], device=device) for ids in sides))[0].float()  # [T,V]
            recorded.append(_sample(whole, example, seen, logits, special, spell))
            deviation = float(torch.tensor([deviation, seen.deviation]).max())  # keeps NaN
    measures = head_measures(recorded) | (measured or {})
    return Recording(step, tuple(recorded), measures, head_labels(measures), tuple(scores), deviation)


def _sample(
    whole: Example, example: Example, seen: AttentionRecording, logits: Tensor, special: frozenset[int], spell: Pieces
) -> Sample:
    expected = torch.tensor(example.next_ids, dtype=torch.long, device=logits.device)
    losses = F.cross_entropy(logits[: len(expected)], expected, reduction="none")
    return Sample(
        reads=tokens(example.target_ids, example.target_pieces, special),
        predicts=tokens(example.next_ids, example.next_pieces, special),
        source=None if example.source_ids is None else tokens(example.source_ids, example.source_pieces or (), special),
        losses=tuple(round(loss, 5) for loss in losses.tolist()),
        predictions=_predictions(logits, spell),
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
    """Compute the attention rollout [Q,K] float16 of each kind of self-attention over all layers."""
    layers: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS if kind != "cross"}
    for kind, layer in sorted(seen.weights):
        if kind in layers:
            layers[kind].append(seen.weights[kind, layer][0].mean(dim=0).cpu().numpy())
    return {kind: rollout(means).astype(np.float16) for kind, means in layers.items() if means}


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


def _predictions(logits: Tensor, spell: Pieces) -> tuple[tuple[Prediction, ...], ...]:
    """Return the most likely tokens of each row of `logits` [T,V]."""
    best = logits.softmax(dim=-1).topk(min(PREDICTIONS, logits.shape[-1]), dim=-1)
    return tuple(
        tuple(Prediction(token, piece, round(p, 5)) for token, piece, p in zip(ids, spell(ids), row, strict=True))
        for ids, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )


def _halved(tensors: dict[Key, Tensor]) -> dict[Key, np.ndarray]:
    """Convert to float16 to halve the file; the maximum error, 2.4e-4, is invisible and hardly changes a measure."""
    return {key: tensor.half().cpu().numpy() for key, tensor in tensors.items()}
