"""Export our weights to CTranslate2's format, directly rather than through another library's model.

Linear layers without a bias stay without one, which saves additions compared with a model converted from Hugging Face.
CTranslate2's tokens are strings; each token is represented by its id as a string.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.contender import Skipped
from benchmarks.peers.weights import FORBIDDEN, never_written, position_table, require_exportable
from data.tokens.tokenizer import Tokenizer
from model.blocks import DecoderBlock, EncoderBlock
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def words(ids: Iterable[int]) -> list[str]:
    """Convert token ids to CTranslate2's string tokens."""
    return [str(token) for token in ids]


def options(compute: str, threads: int, workers: int) -> dict[str, Any]:
    """Return arguments of a Generator or Translator for the device of all contenders. On a machine with a GPU, raises
    Skipped if CTranslate2 cannot use it, and for more than one thread or worker."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not ctranslate2.get_cuda_device_count():
        raise Skipped("this CTranslate2 build cannot use the GPU")
    if device == "cuda" and (threads > 1 or workers > 1):
        raise Skipped("on a GPU only one thread is measured")
    return {"device": device, "compute_type": compute, "intra_threads": threads, "inter_threads": workers}


def write_generator(model: GPT, folder: Path) -> None:
    """Write a GPT for `ctranslate2.Generator`. The end-of-text token is 0; `min_length` must suppress it."""
    config = model.config
    require_exportable(config, ("learned",))
    spec = TransformerDecoderModelSpec.from_config(config.layers, config.heads, activation=Activation.GELU)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = _array(model.output_weight)
    decoder.position_encodings.encodings = _array(position_table(model.embedding))
    for theirs, ours in zip(decoder.layer, model.blocks, strict=True):
        _fill_block(theirs, ours)
    _fill_norm(decoder.layer_norm, model.norm)
    decoder.projection.weight = _array(model.output_weight)
    spec.register_vocabulary(words(range(model.vocab_size)))
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = "0"
    _save(spec, folder)


def write_translator(model: EncoderDecoder, folder: Path) -> None:
    """Write a translator for `ctranslate2.Translator`; sources must end with eos, as in our model.

    A bias on the logits suppresses the tokens that our model never generates.
    """
    config = model.config
    require_exportable(config, ("learned", "sinusoidal"))
    spec = TransformerSpec.from_config(
        (config.encoder_depth, config.layers), config.heads, pre_norm=True, activation=Activation.GELU
    )
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], model.source_embedding, model.source_vocab, model.encoder_norm),
        (spec.decoder, spec.decoder.embeddings, model.target_embedding, model.vocab_size, model.decoder_norm),
    )
    for side, table, embedding, vocabulary, norm in sides:
        side.scale_embeddings = np.dtype("float32").type(embedding.scale)
        table.weight = _array(embedding.tokens.weight[:vocabulary])
        side.position_encodings.encodings = _array(position_table(embedding))
        _fill_norm(side.layer_norm, norm)
    for theirs, ours in zip(spec.encoder.layer, model.encoder, strict=True):
        _fill_block(theirs, ours)
    for theirs, ours in zip(spec.decoder.layer, model.decoder, strict=True):
        _fill_block(theirs, ours)
        _fill_norm(theirs.attention.layer_norm, ours.cross_norm)
        _fill_linear(theirs.attention.linear[0], ours.cross_attention.query)
        _fill_linear(theirs.attention.linear[1], ours.cross_attention.key_value)
        _fill_linear(theirs.attention.linear[2], ours.cross_attention.output)
    spec.decoder.projection.weight = _array(model.output_weight)
    bias = torch.zeros(model.vocab_size)
    bias[never_written()] = FORBIDDEN
    spec.decoder.projection.bias = _array(bias)
    spec.register_source_vocabulary(words(range(model.source_vocab)))
    spec.register_target_vocabulary(words(range(model.vocab_size)))
    spec.config.bos_token = spec.config.decoder_start_token = str(Tokenizer.bos_id)
    spec.config.eos_token, spec.config.unk_token = str(Tokenizer.eos_id), str(Tokenizer.unk_id)
    _save(spec, folder)


def _save(spec: TransformerDecoderModelSpec | TransformerSpec, folder: Path) -> None:
    spec.validate()
    spec.optimize()  # deduplicates equal tables in the file and in memory
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _fill_block(theirs: Any, ours: DecoderBlock | EncoderBlock) -> None:
    _fill_norm(theirs.self_attention.layer_norm, ours.attention_norm)
    _fill_linear(theirs.self_attention.linear[0], ours.attention.query_key_value)
    _fill_linear(theirs.self_attention.linear[1], ours.attention.output)
    _fill_norm(theirs.ffn.layer_norm, ours.feed_forward_norm)
    _fill_linear(theirs.ffn.linear_0, ours.feed_forward.expand)
    _fill_linear(theirs.ffn.linear_1, ours.feed_forward.project)


def _fill_norm(theirs: LayerNormSpec, ours: nn.LayerNorm) -> None:
    """Copy a LayerNorm. A missing bias is written as 0, since CTranslate2 reads a norm without beta as RMSNorm."""
    theirs.gamma = _array(ours.weight)
    theirs.beta = _array(torch.zeros_like(ours.weight) if ours.bias is None else ours.bias)


def _fill_linear(theirs: LinearSpec, ours: nn.Linear) -> None:
    theirs.weight = _array(ours.weight)
    if ours.bias is not None:
        theirs.bias = _array(ours.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().contiguous().numpy()
