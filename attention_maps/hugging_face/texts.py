"""Record the attention of a transformers model on given texts, without side effects on its training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from attention_maps.base.errors import UserError
from attention_maps.hugging_face.labels import Tokenizers, of_sides
from attention_maps.hugging_face.record import Layers, core, record_attention
from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.recording import Recording

Text = str | tuple[str, str]
"""A text, or a sentence and its translation; an encoder-decoder continues a sentence alone with its own translation."""


def record_texts(
    model: nn.Module,
    tokenizer: Tokenizers,
    texts: Sequence[Text],
    *,
    step: int = 0,
    layers: Layers | None = None,
    max_tokens: int = 128,
) -> Recording:
    """Record texts, or pairs (source, target) of an encoder-decoder, in evaluation mode and without gradients.

    The training mode of each module and the random state are restored. Texts are read one at a time, without padding,
    and cut after `max_tokens`. Raises UserError like `record_attention`, and for texts without tokens.
    """
    check_texts(texts)
    inner = core(model)
    device = next(inner.parameters()).device
    with undisturbed(inner), record_attention(inner, tokenizer, layers=layers) as recorded:
        for text in texts:
            _read(inner, of_sides(tokenizer), text, max_tokens, device)
    return recorded.recording(step)


def check_texts(texts: Sequence[Text]) -> None:
    """Raise UserError if there are no texts, or if they are one string, whose characters would be texts."""
    if isinstance(texts, str) or not texts:
        raise UserError(f"texts={texts!r}: give a list of texts")


def _read(model: Any, tokenizers: tuple[Any, Any], text: Text, max_tokens: int, device: torch.device) -> None:
    source, target = (text, None) if isinstance(text, str) else text
    how: dict[str, Any] = {"return_tensors": "pt", "truncation": True, "max_length": max_tokens}
    inputs = tokenizers[0](source, **how).to(device)
    if not inputs["input_ids"].numel():
        raise UserError(f"{source!r} has no tokens")
    if not getattr(model.config, "is_encoder_decoder", False):
        if target is not None:
            raise UserError(f"{type(model).__name__} reads single texts, not pairs: {text!r}")
        model(**inputs)
    elif target is None:
        longest = min(max_tokens, 2 * inputs["input_ids"].shape[1] + 8)  # an untrained model does not end by itself
        model.generate(**inputs, num_beams=1, do_sample=False, max_new_tokens=longest)
    else:
        labels = tokenizers[1](text_target=target, **how)["input_ids"].to(device)
        model(**inputs, labels=labels)
