"""Export our weights to Hugging Face transformers: a GPT as GPT-2, a translator as Pegasus.

Among the library's encoder-decoders, Pegasus matches our architecture: pre-norm with a final norm in encoder and
decoder, and absolute position embeddings (Marian and BART are post-norm, T5 has relative positions).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, PegasusConfig, PegasusForConditionalGeneration

from benchmarks.peers.weights import (
    FORBIDDEN,
    fill,
    fill_gpt2,
    fill_parts,
    never_written,
    position_table,
    require_exportable,
)
from data.tokens.tokenizer import Tokenizer
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def gpt2_model(size: Any, vocabulary: int, **options: Any) -> GPT2LMHeadModel:
    """Create GPT-2 with the exact GELU. `size` has the fields of `Shape`; `options` are fields of GPT2Config."""
    sizes = {"n_positions": size.context, "n_embd": size.width, "n_layer": size.layers, "n_head": size.heads}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **sizes, activation_function="gelu", **options))


def gpt2(model: GPT) -> GPT2LMHeadModel:
    """Return GPT-2 with the weights of our GPT, in evaluation mode and without an end-of-text token."""
    config = model.config
    require_exportable(config, ("learned",))
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    peer = gpt2_model(config, model.vocab_size, n_inner=config.hidden_width, **special)
    fill_gpt2(peer.transformer, model)
    return peer.eval()


@torch.no_grad()
def pegasus(model: EncoderDecoder) -> PegasusForConditionalGeneration:
    """Return Pegasus with the weights of our translator, in evaluation mode, with the special ids of `Tokenizer`.

    A bias on the logits suppresses the tokens that our model never generates. Raises ValueError unless source and
    target share one vocabulary.
    """
    config = model.config
    require_exportable(config, ("learned", "sinusoidal"))
    if model.source_embedding.tokens is not model.target_embedding.tokens:
        raise ValueError("Hugging Face's Pegasus cannot run this model: its vocabulary must be shared by both sides")
    sides = {"layers": config.layers, "attention_heads": config.heads, "ffn_dim": config.hidden_width}
    values = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()}
    peer_config = PegasusConfig(
        vocab_size=model.vocab_size,
        d_model=config.width,
        max_position_embeddings=config.context,
        **values | {"encoder_layers": config.encoder_depth},
        activation_function="gelu",
        scale_embedding=model.target_embedding.scale != 1.0,
        decoder_start_token_id=Tokenizer.bos_id,
        bos_token_id=Tokenizer.bos_id,
        eos_token_id=Tokenizer.eos_id,
        pad_token_id=Tokenizer.pad_id,
        forced_eos_token_id=None,
    )
    peer = PegasusForConditionalGeneration(peer_config)
    body = peer.model
    body.shared.weight.copy_(model.output_weight)
    body.encoder.embed_positions.weight.copy_(position_table(model.source_embedding))
    body.decoder.embed_positions.weight.copy_(position_table(model.target_embedding))
    for theirs, ours in zip(body.encoder.layers, model.encoder, strict=True):
        _fill_block(theirs, ours)
    for theirs, ours in zip(body.decoder.layers, model.decoder, strict=True):
        _fill_block(theirs, ours)
        attention = theirs.encoder_attn
        fill(theirs.encoder_attn_layer_norm, ours.cross_norm)
        fill(attention.q_proj, ours.cross_attention.query)
        fill_parts((attention.k_proj, attention.v_proj), ours.cross_attention.key_value)
        fill(attention.out_proj, ours.cross_attention.output)
    fill(body.encoder.layer_norm, model.encoder_norm)
    fill(body.decoder.layer_norm, model.decoder_norm)
    peer.final_logits_bias[0, never_written()] = FORBIDDEN
    return peer.eval()


def _fill_block(theirs: nn.Module, ours: nn.Module) -> None:
    attention = theirs.self_attn
    fill(theirs.self_attn_layer_norm, ours.attention_norm)
    fill_parts((attention.q_proj, attention.k_proj, attention.v_proj), ours.attention.query_key_value)
    fill(attention.out_proj, ours.attention.output)
    fill(theirs.final_layer_norm, ours.feed_forward_norm)
    fill(theirs.fc1, ours.feed_forward.expand)
    fill(theirs.fc2, ours.feed_forward.project)
