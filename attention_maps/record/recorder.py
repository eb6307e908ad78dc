"""Record the attention of a model on examples (probes, validation rows) without side effects on training."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_maps.record.example import Example, Pieces
from attention_maps.record.measures import head_labels, head_measures, rollout
from attention_maps.record.recording import Key, Measures, Prediction, Recording, Sample, Score, tokens
from attention_maps.record.undisturbed import undisturbed
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import AttentionRecording, record_attention


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
    """Record every attention map of every example, with losses, the most likely next tokens and head output norms.

    The model runs in eval mode without gradients. The training mode of each module and the random state are restored,
    so recording does not affect training. `model`: the module itself, not the compiled wrapper. Examples run one at a
    time, so that no padding enters a map. `pieces`: converts predicted ids to text (the target tokenizer's method);
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
            seen, logits = _forward(model, example, device)
            recorded.append(_sample(whole, example, seen, logits, special, spell, top))
            deviation = float(torch.tensor([deviation, seen.deviation]).max())  # keeps NaN
    measures = head_measures(recorded) | (measured or {})
    return Recording(step, tuple(recorded), measures, head_labels(measures), tuple(scores), deviation)


def _forward(model: GPT | EncoderDecoder, example: Example, device: torch.device) -> tuple[AttentionRecording, Tensor]:
    """Run the model on one example; return the recorded attention and the logits [T,V]."""
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
    """Attention rollout [Q,K] float16 of each kind of self-attention over all layers."""
    layers = {
        kind: [seen.weights[key][0].mean(dim=0).cpu().numpy() for key in sorted(seen.weights) if key[0] == kind]
        for kind in ("encoder", "decoder")
    }
    return {kind: rollout(means).astype(np.float16) for kind, means in layers.items() if means}


def _check(model: GPT | EncoderDecoder, example: Example) -> None:
    name = f"example '{example.name}'" if example.name else "an example"
    translates = isinstance(model, EncoderDecoder)
    if translates and not example.source_ids:
        raise ValueError(f"{name} has no source tokens, but the model is an encoder-decoder")
    if not translates and example.source_ids is not None:
        raise ValueError(f"{name} has a source, but the model is a GPT")
    if not example.target_ids:
        raise ValueError(f"{name} has no tokens to read")
    if not 0 <= len(example.target_ids) - len(example.next_ids) <= 1:
        raise ValueError(f"{name} reads {len(example.target_ids)} tokens but predicts {len(example.next_ids)}")


def _predictions(logits: Tensor, spell: Pieces, top: int) -> tuple[tuple[Prediction, ...], ...]:
    """The `top` most likely tokens of each row of `logits` [T,V]."""
    best = logits.softmax(dim=-1).topk(min(top, logits.shape[-1]), dim=-1)
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(
        tuple(Prediction(*parts) for parts in zip(ids, spell(ids), [round(p, 5) for p in chances], strict=True))
        for ids, chances in rows
    )


def _halved(tensors: dict[Key, Tensor]) -> dict[Key, np.ndarray]:
    """Convert to float16 to halve the file; the maximum error, 2.4e-4, is invisible and hardly changes a measure."""
    return {key: tensor.half().cpu().numpy() for key, tensor in tensors.items()}
