"""Small models of transformers with random weights, and tokenizers trained in memory."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BertConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MarianConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
    T5Config,
)

TEXTS = ["Emi likes apples more than oranges.", "She came because the cat was hungry.", "りんごが好きです。"]

VOCABULARY = 300
SMALL = {"vocab_size": VOCABULARY}
WIDE = SMALL | {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
PAIR = SMALL | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
MODELS: dict[str, tuple[Any, Any]] = {
    "gpt2": (
        AutoModelForCausalLM,
        GPT2Config(**SMALL, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=2),
    ),
    "bert": (AutoModelForMaskedLM, BertConfig(**WIDE, max_position_embeddings=64)),
    "marian": (AutoModelForSeq2SeqLM, MarianConfig(**PAIR)),
    "llama": (AutoModelForCausalLM, LlamaConfig(**WIDE, num_key_value_heads=2, max_position_embeddings=64)),
    "t5": (
        AutoModelForSeq2SeqLM,
        T5Config(**SMALL, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0),
    ),
    "bart": (AutoModelForSeq2SeqLM, BartConfig(**PAIR)),
    "gpt_neox": (AutoModelForCausalLM, GPTNeoXConfig(**WIDE, max_position_embeddings=64)),
    "qwen3": (AutoModelForCausalLM, Qwen3Config(**WIDE, head_dim=8, num_key_value_heads=2, max_position_embeddings=64)),
}
"""Class and config by architecture."""


def made(name: str, attention: str = "sdpa") -> Any:
    """Return a model in eval mode."""
    kind, config = MODELS[name]
    torch.manual_seed(0)
    return enlarged(kind.from_config(deepcopy(config), attn_implementation=attention))


def enlarged(model: Any) -> Any:
    """Make the random weights of a model large enough for maps that differ; return it in eval mode."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.4)
    return model.eval()


@cache
def tokenizer(spelling: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer as of GPT-2 and Llama (`bytes`), BERT (`wordpiece`), or Marian and T5 (`▁`)."""
    special = ["<pad>", "<unk>", "</s>", "[CLS]", "[SEP]", "[MASK]"]
    if spelling == "bytes":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        trainer: Any = trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
    elif spelling == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=60, special_tokens=special)
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>")
    made.train_from_iterator(TEXTS * 20, trainer)
    if spelling != "bytes":
        ends = "[CLS] $A [SEP]" if spelling == "wordpiece" else "$A </s>"
        named = [(name, made.token_to_id(name)) for name in special]
        made.post_processor = processors.TemplateProcessing(single=ends, special_tokens=named)
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    if spelling == "wordpiece":
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a model."""
    return tokenizer({"bert": "wordpiece", "marian": "▁", "t5": "▁", "bart": "▁"}.get(name, "bytes"))


def inputs_of(name: str, side: str = "right") -> dict[str, Tensor]:
    """Return two texts of different length, padded, with a decoder's input for an encoder-decoder."""
    inputs = dict(tokenizer_of(name)(TEXTS[:2], return_tensors="pt", padding=True, padding_side=side))
    inputs.pop("token_type_ids", None)
    if MODELS[name][1].is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[0, 7, 8, 9, 10], [0, 5, 6, 7, 8]])
    return inputs
