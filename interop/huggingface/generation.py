"""Generation settings with which `generate` of transformers writes what `generate.py` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import GenerationConfig

from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from interop.huggingface.translator import SPECIAL_IDS
from model.config import ModelConfig

GPT_SPECIAL_IDS = {
    "bos_token_id": SentencePieceTokenizer.eos_id,  # eos separates the documents: a text begins and ends with it
    "eos_token_id": SentencePieceTokenizer.eos_id,
    "pad_token_id": SentencePieceTokenizer.pad_id,
}


def writing(config: ModelConfig, never: list[int], ids: Mapping[str, int] = GPT_SPECIAL_IDS) -> GenerationConfig:
    """Return the settings of a GPT: the defaults of `generate.py`, except that a prompt of half the context and what
    follows it fit the context, because transformers does not shift it. never: ids that are not generated; ids: special
    ids."""
    return GenerationConfig(
        do_sample=True,
        temperature=0.8,
        top_k=0,
        max_new_tokens=min(200, config.context // 2),
        suppress_tokens=never,
        **ids,
    )


def translating(
    config: ModelConfig, never: list[int], trainer: Mapping[str, Any], ids: Mapping[str, int] = SPECIAL_IDS
) -> GenerationConfig:
    """Return the settings of a translator: beam search as in the tests of the run (`trainer.beam_size`). never: ids
    that are not generated; ids: special ids.

    With `early_stopping`, a search ends when `num_beams` hypotheses have ended, as ours does; with `renormalize_logits`
    the probabilities of suppressed tokens go to the others before hypotheses are compared. `max_length` counts the
    first token of the decoder. The limit of each sentence (`longest_target`) is no setting: `modeling_chumoku.py` has
    it, other classes do not.
    """
    return GenerationConfig(
        num_beams=trainer["beam_size"],
        length_penalty=float(trainer["length_penalty"]),
        early_stopping=True,
        max_length=config.context,
        suppress_tokens=never,
        renormalize_logits=True,
        **ids,
    )
