"""Our models in Hugging Face transformers (`interop.huggingface`), and GPT-2 with random weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PegasusForConditionalGeneration, PreTrainedModel

from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from interop.huggingface.gpt import causal_lm
from interop.huggingface.translator import seq2seq_lm
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def gpt2_model(size: Any, vocabulary: int, **options: Any) -> GPT2LMHeadModel:
    """Create GPT-2 with the exact GELU. `size` has the fields of `Shape`; `options` are fields of GPT2Config."""
    sizes = {"n_positions": size.context, "n_embd": size.width, "n_layer": size.layers, "n_head": size.heads}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **sizes, activation_function="gelu", **options))


def gpt2(model: GPT) -> PreTrainedModel:
    """Return GPT-2 with the weights of our GPT, in evaluation mode and without an end-of-text token."""
    return causal_lm(model, {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0})


def never_written() -> list[int]:
    """Return the special ids that a translator must not generate: all except eos."""
    return sorted(SentencePieceTokenizer.special_ids - {SentencePieceTokenizer.eos_id})


@torch.no_grad()
def pegasus(model: EncoderDecoder) -> PegasusForConditionalGeneration:
    """Return Pegasus with the weights of our translator, in evaluation mode, with the special ids of `Tokenizer`.

    A bias on the logits suppresses the tokens that our model never generates. Raises ValueError unless Pegasus computes
    the model exactly.
    """
    peer = seq2seq_lm(model)
    if not isinstance(peer, PegasusForConditionalGeneration):
        raise ValueError(
            "the peers cannot run this model: it needs norm=layer, position=sinusoidal or learned,"
            " activation=gelu, qk_norm=false and one shared vocabulary"
        )
    peer.final_logits_bias[0, never_written()] = -1e9  # of a probability of 0
    return peer
