"""A translator as a model of transformers, with our weights in it.

Pegasus computes the classic flavour: LayerNorm before each part and at the end, positions added to the embedding, no
gates. (Marian and BART normalise after each part; T5 has relative positions.) No encoder-decoder of transformers
computes the others, with RMSNorm, rotary positions and query-key norms: the exported folder brings the code of the
model with it, `modeling_chumoku.py`. So every translator can be exported, and the recipes need not change for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

from torch import Tensor, nn
from transformers import PegasusConfig, PegasusForConditionalGeneration, PreTrainedModel

from configs.errors import UserError
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from interop.huggingface.modeling_chumoku import ChumokuConfig, ChumokuForSeq2SeqLM
from interop.huggingface.weights import ACTIVATIONS, Weights, each_head_its_key, layer, load, split
from interop.imported_options import advised, foreign_options
from model.blocks import CrossDecoderBlock, DecoderBlock, EncoderBlock
from model.embedding import Embedding
from model.encoder_decoder import EncoderDecoder

SPECIAL_IDS = {
    "decoder_start_token_id": SentencePieceTokenizer.bos_id,
    "bos_token_id": SentencePieceTokenizer.bos_id,
    "eos_token_id": SentencePieceTokenizer.eos_id,
    "pad_token_id": SentencePieceTokenizer.pad_id,
}


def seq2seq_lm(model: EncoderDecoder) -> PreTrainedModel:
    """Return a model of transformers with the weights of a translator, in evaluation mode: Pegasus if it computes the
    model exactly, otherwise our own class. The padding rows of the vocabulary are left out. Raises UserError."""
    if refused := foreign_options(model.config, "transformers"):
        raise UserError(*advised(refused))
    return pegasus(model) if is_classic(model) else chumoku(model)


def is_classic(model: EncoderDecoder) -> bool:
    """Whether Pegasus computes this model exactly."""
    config = model.config
    return (
        config.norm == "layer"
        and config.position != "rotary"
        and config.activation != "swiglu"
        and not config.qk_norm
        and not config.cross_qk_norm
        and config.tie_embeddings
        and model.source_embedding.tokens is model.target_embedding.tokens
    )


def chumoku(model: EncoderDecoder) -> PreTrainedModel:
    """Return our own class, whose parts have the same names; what was in the model is now in its encoder or decoder."""
    ours = model.config
    config = ChumokuConfig(
        vocab_size=model.vocab_size,
        source_vocab_size=model.source_vocab,
        layers=ours.layers,
        encoder_layers=ours.encoder_depth,
        heads=ours.heads,
        kv_heads=ours.key_value_heads,
        width=ours.width,
        feed_forward=ours.hidden_width,
        context=ours.context,
        norm=ours.norm,
        position=ours.position,
        activation=ours.activation,
        qk_norm=ours.qk_norm,
        cross_qk_norm=ours.cross_qk_norm,
        bias=ours.bias,
        share_embeddings=model.source_embedding.tokens is model.target_embedding.tokens,
        tie_embeddings=ours.tie_embeddings,
        dropout=ours.dropout,
        attention_dropout=ours.attention_dropout,
        dtype="float32",
        **SPECIAL_IDS,
    )
    ChumokuConfig.register_for_auto_class()  # saving copies the file beside the weights
    ChumokuForSeq2SeqLM.register_for_auto_class("AutoModelForSeq2SeqLM")
    theirs = ChumokuForSeq2SeqLM(config)
    vocabularies = {"encoder.embedding.tokens.weight": model.source_vocab}
    weights: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        name = re.sub(r"^(encoder|decoder)\.(\d+)", r"\1.blocks.\2", name)
        name = re.sub(r"^(encoder|decoder)_norm", r"\1.norm", name)
        name = name.replace("source_embedding", "encoder.embedding").replace("target_embedding", "decoder.embedding")
        of_tokens = name.endswith("tokens.weight") or name == "head.weight"
        weights[name] = value[: vocabularies.get(name, model.vocab_size)] if of_tokens else value
    load(theirs, weights)
    return cast(PreTrainedModel, theirs.eval())


def pegasus(model: EncoderDecoder) -> PreTrainedModel:
    """Return Pegasus, in which every head has its own key."""
    ours = model.config
    sides = {"attention_heads": ours.heads, "ffn_dim": ours.hidden_width}
    config = PegasusConfig(
        vocab_size=model.vocab_size,
        d_model=ours.width,
        encoder_layers=ours.encoder_depth,
        decoder_layers=ours.layers,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()},
        max_position_embeddings=ours.context,
        activation_function=ACTIVATIONS[ours.activation],
        scale_embedding=model.target_embedding.scale != 1.0,
        dropout=ours.dropout,
        attention_dropout=ours.attention_dropout,
        forced_eos_token_id=None,
        dtype="float32",
        **SPECIAL_IDS,
    )
    theirs = PegasusForConditionalGeneration(config)
    tokens = model.output_weight
    weights: Weights = dict.fromkeys(("model.shared.weight", "lm_head.weight"), tokens)
    weights["final_logits_bias"] = tokens.new_zeros(1, model.vocab_size)
    sources, targets = cast(Iterable[EncoderBlock], model.encoder), cast(Iterable[CrossDecoderBlock], model.decoder)
    sides_of: tuple[tuple[str, Embedding, Iterable[EncoderBlock | DecoderBlock], nn.Module], ...] = (
        ("encoder", model.source_embedding, sources, model.encoder_norm),
        ("decoder", model.target_embedding, targets, model.decoder_norm),
    )
    for side, embedding, blocks, norm in sides_of:
        assert embedding.positions is not None
        weights[f"model.{side}.embed_tokens.weight"] = tokens
        weights[f"model.{side}.embed_positions.weight"] = embedding.positions(0, ours.context)
        weights |= layer(f"model.{side}.layer_norm", norm)
        for number, block in enumerate(blocks):
            weights |= _pegasus_block(f"model.{side}.layers.{number}", block)
    load(theirs, weights)
    return cast(PreTrainedModel, theirs.eval())


def _pegasus_block(place: str, block: EncoderBlock | DecoderBlock) -> Weights:
    """Return the weights of a block under their names in Pegasus."""
    width = block.attention.output.out_features
    weights = split(
        [f"{place}.self_attn.{part}_proj" for part in "qkv"],
        [width] * 3,
        each_head_its_key(block.attention, layer("", block.attention.query_key_value)),
    )
    weights |= layer(f"{place}.self_attn.out_proj", block.attention.output)
    weights |= layer(f"{place}.self_attn_layer_norm", block.attention_norm)
    weights |= layer(f"{place}.final_layer_norm", block.feed_forward_norm)
    weights |= layer(f"{place}.fc1", block.feed_forward.expand) | layer(f"{place}.fc2", block.feed_forward.project)
    if isinstance(block, CrossDecoderBlock):
        cross = block.cross_attention
        names = [f"{place}.encoder_attn.{part}_proj" for part in "kv"]
        weights |= split(names, [width] * 2, each_head_its_key(cross, layer("", cross.key_value)))
        weights |= layer(f"{place}.encoder_attn.q_proj", cross.query)
        weights |= layer(f"{place}.encoder_attn.out_proj", cross.output)
        weights |= layer(f"{place}.encoder_attn_layer_norm", block.cross_norm)
    return weights
