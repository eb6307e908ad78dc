"""With the same weights, torch's own modules give the same output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.attention import CausalSelfAttention, CrossAttention, SelfAttention
from model.block_variants import block_class
from model.blocks import CrossDecoderBlock, EncoderBlock
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder

Sharpen = Callable[[Any], Any]

CONFIG = ModelConfig(
    layers=2,
    encoder_layers=3,
    heads=4,
    width=32,
    feed_forward=48,
    context=16,
    norm="layer",
    position="sinusoidal",
    activation="gelu",
    qk_norm=False,
    bias=True,
)
ARRANGEMENTS = [CONFIG, replace(CONFIG, block="post_norm")]
FUTURE = nn.Transformer.generate_square_subsequent_mask(7)
PADDING = torch.arange(6) >= torch.tensor([[6], [3], [1]])  # torch's convention: True means ignored


def copy_attention(theirs: nn.MultiheadAttention, ours: SelfAttention | CrossAttention) -> None:
    """Copy our weights to torch's attention module."""
    if isinstance(ours, SelfAttention):
        weight, bias = ours.query_key_value.weight, ours.query_key_value.bias
    else:
        weight = torch.cat((ours.query.weight, ours.key_value.weight))
        bias = torch.cat((ours.query.bias, ours.key_value.bias))
    theirs.in_proj_weight.copy_(weight)
    theirs.in_proj_bias.copy_(bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_block(
    theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, ours: EncoderBlock | CrossDecoderBlock
) -> None:
    """Copy the weights of our block to torch's layer."""
    copy_attention(theirs.self_attn, ours.attention)
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.project.state_dict())
    norms: list[nn.Module] = [ours.attention_norm, ours.feed_forward_norm]
    if isinstance(ours, CrossDecoderBlock):
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        norms.insert(1, ours.cross_norm)
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def torch_transformer(ours: EncoderDecoder) -> nn.Transformer:
    """Return torch's own encoder-decoder with our weights."""
    config = ours.config
    theirs = nn.Transformer(
        config.width,
        config.heads,
        config.encoder_depth,
        config.layers,
        config.hidden_width,
        0.0,
        "gelu",
        batch_first=True,
        norm_first=config.block == "pre_norm",
    ).eval()
    with torch.no_grad():
        for stack, layers in ((theirs.encoder.layers, ours.encoder), (theirs.decoder.layers, ours.decoder)):
            for layer, block in zip(stack, layers, strict=True):
                copy_block(layer, block)
        if config.block == "post_norm":  # torch adds a norm at the end of a stack of post-norm layers
            theirs.encoder.norm = theirs.decoder.norm = None
        else:
            theirs.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
            theirs.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())
    return theirs


@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_attention_modules_equal_multihead_attention(kind: str, sharpen: Sharpen) -> None:
    """Guards against another order of heads within the fused projections."""
    x, memory = torch.randn(3, 7, 32), torch.randn(3, 6, 32)
    theirs = nn.MultiheadAttention(32, 4, batch_first=True)
    ours: SelfAttention | CrossAttention
    if kind == "cross":
        ours = sharpen(CrossAttention(CONFIG, "cross", 0))
        output: Tensor = ours(x, *ours.keys_values(memory), ~PADDING)
    else:
        ours = sharpen((CausalSelfAttention if kind == "causal" else SelfAttention)(CONFIG, kind, 0))
        output = ours(x)
    with torch.no_grad():
        copy_attention(theirs, ours)
    keys = memory if kind == "cross" else x
    expected, _ = theirs(
        x, keys, keys, PADDING if kind == "cross" else None, False, FUTURE if kind == "causal" else None
    )
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", ARRANGEMENTS, ids=["pre_norm", "post_norm"])
def test_encoder_block_equals_transformer_encoder_layer(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against another order of norm, branch and residual."""
    block = sharpen(block_class(EncoderBlock, config)(config, 0))
    theirs = nn.TransformerEncoderLayer(32, 4, 48, 0.0, "gelu", batch_first=True, norm_first=config.block == "pre_norm")
    with torch.no_grad():
        copy_block(theirs, block)
    x = torch.randn(3, 6, 32)
    real = ~PADDING
    expected = theirs(x, src_key_padding_mask=PADDING)
    torch.testing.assert_close(block(x, None, real)[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", ARRANGEMENTS, ids=["pre_norm", "post_norm"])
def test_cross_decoder_block_equals_transformer_decoder_layer(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against another order of self-attention, cross-attention and MLP, or of their three norms."""
    block = sharpen(block_class(CrossDecoderBlock, config)(config, 0))
    theirs = nn.TransformerDecoderLayer(32, 4, 48, 0.0, "gelu", batch_first=True, norm_first=config.block == "pre_norm")
    with torch.no_grad():
        copy_block(theirs, block)
    x, memory = torch.randn(3, 7, 32), torch.randn(3, 6, 32)
    expected = theirs(x, memory, FUTURE, memory_key_padding_mask=PADDING)
    output = block(x, block.cross_attention.keys_values(memory), ~PADDING)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("config", ARRANGEMENTS, ids=["pre_norm", "post_norm"])
def test_encoder_decoder_equals_transformer(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against errors in the stacks: final norms, the decoder's memory, √C and sinusoids on both sides."""
    ours = sharpen(EncoderDecoder(config, 11, 13))
    theirs = torch_transformer(ours)
    source, target = torch.randint(11, (3, 6)), torch.randint(13, (3, 7))
    place = torch.arange(7.0)[:, None] / 10000 ** (torch.arange(0, 32, 2) / 32)
    sinusoids = torch.stack((place.sin(), place.cos()), -1).flatten(-2)
    embedded_source = ours.source_embedding.tokens(source) * 32**0.5 + sinusoids[:6]
    embedded_target = ours.target_embedding.tokens(target) * 32**0.5 + sinusoids
    expected = theirs(
        embedded_source, embedded_target, tgt_mask=FUTURE, src_key_padding_mask=PADDING, memory_key_padding_mask=PADDING
    )
    torch.testing.assert_close(ours.features(source, target, ~PADDING), expected, rtol=1e-4, atol=1e-4)
