"""Translating many sentences: sorted by length into batches, the order restored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from data.tokenizer import Tokenizer
from model.beam_search import Hypothesis, beam_search
from model.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Translation:
    """One hypothesis of one sentence."""

    text: str
    score: float
    """Log-probability in nats divided by length ** length_penalty: the larger, the better."""


@dataclass(frozen=True)
class TranslationOptions:
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 1.0
    n_best: int = 1
    batch_size: int = 64
    """Sentences decoded together."""


def translate(
    model: EncoderDecoder, tokenizers: list[Tokenizer], sentences: list[str], options: TranslationOptions
) -> Iterator[tuple[int, list[Translation]]]:
    """Translate `sentences`, longest first; yields (index, n-best list) in the order in which they get ready.

    Empty sentences (white space only) are not asked of the model: their translation is empty. Sources longer than the
    model's context are cut to it; `overlong` finds them beforehand.
    """
    source, target = tokenizers[0], tokenizers[-1]
    device = next(model.parameters()).device
    context = model.config.context
    encoded = []
    for index, sentence in enumerate(sentences):
        if sentence.strip():
            encoded.append((index, [*source.encode(sentence)[: context - 1], source.eos_id]))
        else:
            yield index, [Translation("", 0.0)]
    encoded.sort(key=lambda item: len(item[1]), reverse=True)
    for start in range(0, len(encoded), options.batch_size):
        chunk = encoded[start : start + options.batch_size]
        tokens, mask = pad([ids for _, ids in chunk], source.pad_id)
        hypotheses = beam_search(
            model, tokens.to(device), None if mask is None else mask.to(device),
            bos_id=target.bos_id, eos_id=target.eos_id, beam_size=options.beam_size,
            max_length=target_limit(tokens.size(1), context), length_penalty=options.length_penalty,
            n_best=options.n_best, banned_ids=sorted(set(target.special_ids) - {target.eos_id}),
        )  # fmt: skip
        for (index, _), found in zip(chunk, hypotheses, strict=True):
            yield index, [readable(hypothesis, target) for hypothesis in found]


def translate_all(
    model: EncoderDecoder, tokenizers: list[Tokenizer], sentences: list[str], options: TranslationOptions
) -> list[str]:
    """The best translation of each sentence, in order."""
    best = {index: found[0].text for index, found in translate(model, tokenizers, sentences, options)}
    return [best[index] for index in range(len(sentences))]


def overlong(tokenizer: Tokenizer, sentences: list[str], context: int) -> list[int]:
    """Indices of sentences that do not fit the context together with their end token."""
    return [index for index, sentence in enumerate(sentences) if len(tokenizer.encode(sentence)) > context - 1]


def target_limit(source_length: int, context: int) -> int:
    """The longest translation looked for: three times the source and a little, within the context."""
    return min(context - 1, 3 * source_length + 10)


def readable(hypothesis: Hypothesis, tokenizer: Tokenizer) -> Translation:
    """Tokens to text; a translation is one line whatever the model wrote."""
    return Translation(" ".join(tokenizer.decode(hypothesis.tokens).split("\n")), hypothesis.score)


def pad(sequences: list[list[int]], pad_id: int) -> tuple[Tensor, Tensor | None]:
    """Right-padded [B, S] int64 and its mask [B, S] (True at real tokens), or None when nothing is padded."""
    longest = max(map(len, sequences))
    tokens = torch.tensor([ids + [pad_id] * (longest - len(ids)) for ids in sequences])
    lengths = torch.tensor([len(ids) for ids in sequences])
    if bool((lengths == longest).all()):
        return tokens, None
    return tokens, torch.arange(longest) < lengths[:, None]
