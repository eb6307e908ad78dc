"""Invalid model configurations are rejected with a clear message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.config import ModelConfig, problems
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def test_the_default_configuration_has_no_problems() -> None:
    """Guards against a validator that rejects everything, which would pass the other tests."""
    assert problems(ModelConfig()) == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"layers": 0}, "model.layers"),
        ({"encoder_layers": 0}, "model.encoder_layers"),
        ({"heads": 0}, "model.heads"),
        ({"kv_heads": 0}, "model.kv_heads"),
        ({"width": 0}, "model.width"),
        ({"feed_forward": 0}, "model.feed_forward"),
        ({"context": 1}, "model.context"),
        ({"vocab_multiple": 0}, "model.vocab_multiple"),
        ({"norm": "batch"}, "model.norm"),
        ({"position": "alibi"}, "model.position"),
        ({"activation": "tanh"}, "model.activation"),
        ({"dropout": 1.0}, "model.dropout"),
        ({"attention_dropout": -0.1}, "model.attention_dropout"),
        ({"block": "sandwich"}, "model.block"),
        ({"norm_eps": 0.0}, "model.norm_eps"),
        ({"rotary_base": -1.0}, "model.rotary_base"),
        ({"embedding_scale": 0.0}, "model.embedding_scale"),
        ({"width": 130}, "model.width"),
        ({"kv_heads": 3}, "model.kv_heads"),
        ({"width": 20, "heads": 4}, "model.width"),
        ({"width": 3, "heads": 1, "position": "sinusoidal"}, "model.width"),
    ],
)
def test_a_problem_is_named_by_its_key(changes: dict[str, object], key: str) -> None:
    """Guards against a traceback, and a message that does not name the setting."""
    config = replace(ModelConfig(), **changes)
    (sentence,) = problems(config)
    assert sentence.startswith(key)
    with pytest.raises(ValueError, match=key.replace(".", r"\.")):
        GPT(config, 10)
    with pytest.raises(ValueError, match=key.replace(".", r"\.")):
        EncoderDecoder(config, 10, 10)


def test_all_problems_are_reported_together() -> None:
    """Guards against a message with only the first of several problems."""
    assert len(problems(ModelConfig(layers=0, norm="batch", dropout=2.0))) == 3


def test_derived_values() -> None:
    """Guards against a SwiGLU with more parameters than GELU, and padding that rounds down."""
    config = ModelConfig(width=192, heads=6, kv_heads=2, layers=3)
    assert (config.head_width, config.key_value_heads, config.encoder_depth, config.hidden_width) == (32, 2, 3, 768)
    assert replace(config, activation="swiglu").hidden_width == 512
    assert replace(config, feed_forward=100).hidden_width == 100
    assert replace(config, encoder_layers=1).encoder_depth == 1
    assert [replace(config, vocab_multiple=64).padded_vocab(size) for size in (63, 64, 65)] == [64, 64, 128]
