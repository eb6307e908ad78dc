"""Forward passes that fail while they are recorded, and calls that go on after them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from attention_maps.hugging_face import record_attention
from tests.attention_maps.hugging_face.models import inputs_of, made, tokenizer_of


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["gpt2", "bert", "marian"])
def test_failed_forward_passes_are_discarded(name: str, error: type[BaseException]) -> None:
    """Guards against texts that lack layers, an encoder without its decoder, and maps of the next text among those of
    the one that failed."""
    model, inputs = made(name), inputs_of(name)
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]

    def fail(*_: Any) -> None:
        raise error

    def fails_in(layer: nn.Module) -> None:
        with layer.register_forward_pre_hook(fail), pytest.raises(error):
            model(**inputs)

    with torch.no_grad(), record_attention(model, tokenizer_of(name)) as recorded:
        fails_in(layers[1])
        model(**inputs)
        fails_in(layers[-1])
        fails_in(layers[0])
        model(**inputs)
        with pytest.raises((TypeError, ValueError, IndexError)):
            model(**inputs | {"input_ids": None})
    first, second = recorded.batches
    assert all(torch.equal(weights, second.joined(key)) for key in first.maps for weights in [first.joined(key)])
    assert len(recorded.recording().samples) == 4
    with torch.no_grad(), suppress(error), record_attention(model) as recorded:
        model(**inputs)
        with layers[-1].register_forward_pre_hook(fail):
            model(**inputs)
    assert recorded.weights.keys() == first.maps.keys()
    assert len(recorded.batches) == 1


def test_passes_without_a_loss_and_interrupted_generation_are_discarded() -> None:
    """Guards against maps without their gold tokens, and a text that `generate` could not finish."""
    model, inputs = made("marian"), {key: value for key, value in inputs_of("marian").items() if "decoder" not in key}
    written = 0

    def stop(*_: Any) -> None:
        nonlocal written
        written += 1
        if written == 3:
            raise RuntimeError

    with torch.no_grad(), record_attention(model) as recorded:
        model(**inputs, labels=torch.tensor([[7, 2], [8, 2]]))
        with pytest.raises(IndexError):
            model(**inputs, labels=torch.tensor([[7, 2], [10_000, 2]]))
        with model.get_decoder().register_forward_pre_hook(stop), pytest.raises(RuntimeError):
            model.generate(**inputs, num_beams=1, do_sample=False, min_new_tokens=6, max_new_tokens=6)
    assert [len(sample.predicts) for sample in recorded.recording().samples] == [2, 2]
