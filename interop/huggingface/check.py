"""Load an exported folder with transformers and compare it with the model that it was written from."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel

from configs.errors import UserError
from data.tokens.marian_tokenizer import MarianTokenizer
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.export_input import Trained
from model.gpt import GPT

LARGEST = 1e-4
"""Largest difference between two logits, in units of the largest logit if that is above 1."""

TIES = ", {} with the same tokens in another order (equal scores, between which rounding decides)"
"""SentencePiece's unigram search adds scores in float32."""

Encoder = Callable[[list[str]], list[list[int]]]

INPUTS, LENGTH, TEXTS = 4, 64, 1000

ODD = ["\n", "\t", "  ", " ", "\u2581", "\0", "\r\n", "\ufdd0", "\ufdd3", "é", "日本", "🎉", "<unk>", "</s>", "<0x41>"]
"""Parts of texts that break tokenizers."""

SPECIAL_NAMES = ("<unk>", "</s>")
"""Those that Marian's tokenizer in transformers does not read as text."""


def check_exported(trained: Trained, folder: Path, kind: type[PreTrainedModel]) -> list[str]:
    """Return one line for each comparison. kind: the class of the model in the folder; code in the folder is not run.
    Raises UserError if the exported model computes something else."""
    difference = largest_difference(trained, kind.from_pretrained(folder))
    version = f"transformers {transformers.__version__}"
    if not difference <= LARGEST:
        raise UserError(f"{version} computes other logits (they differ by {difference:.2g}): the export is wrong")
    lines = [f"logits equal Chumoku's within {difference:.1g} on {INPUTS} random inputs ({version}, float32)"]
    for ours, theirs in zip(trained.tokenizers, encoders(folder, len(trained.tokenizers)), strict=True):
        equal, ties = equal_texts(ours, theirs)
        if equal + ties < TEXTS:
            raise UserError(f"{version} gives other tokens for {TEXTS - equal - ties} of {TEXTS} random texts: refused")
        lines.append(
            f"token ids equal Chumoku's for {equal:,} of {TEXTS:,} random texts" + TIES.format(ties) * (ties > 0)
        )
    return lines


@torch.no_grad()
def largest_difference(trained: Trained, theirs: PreTrainedModel) -> float:
    """Return the largest difference between logits of both models on random tokens, none of them special."""
    ours = trained.model
    length = min(LENGTH, ours.config.context)
    target = random_tokens(ours.vocab_size, length)
    if isinstance(ours, GPT):
        logits, expected = theirs(target).logits, ours(target)
    else:
        source = random_tokens(ours.source_vocab, length)
        mask = torch.arange(length) < torch.linspace(1, length, INPUTS).long().unsqueeze(1)  # [B, S]
        expected = ours(source, target, mask)
        logits = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
    return float((logits - expected).abs().max() / expected.abs().max().clamp(min=1))


def random_tokens(vocabulary: int, length: int) -> Tensor:
    """Draw token ids [B, T] that are not special; the same ones in every export."""
    first = len(SentencePieceTokenizer.special_ids)
    return torch.randint(first, vocabulary, (INPUTS, length), generator=torch.Generator().manual_seed(1))


def encoders(folder: Path, count: int) -> list[Encoder]:
    """Return functions from texts to their token ids, by the tokenizer of the folder; if `count` is 2, by those of
    source and target."""
    first, *others = [folder, *sorted(folder.glob("*_tokenizer"))]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")  # of Marian's, not used for ids
        theirs = [AutoTokenizer.from_pretrained(place, trust_remote_code=False) for place in (first, *others)]
    encode: list[Encoder] = [partial(encoded, tokenizer, "text") for tokenizer in theirs]
    if len(encode) < count:  # Marian has one tokenizer with two sides
        encode.append(partial(encoded, theirs[0], "text_target"))
    return encode


def encoded(theirs: Any, side: str, texts: list[str]) -> list[list[int]]:
    """Return the token ids of texts by a tokenizer of transformers. side: `text` or `text_target`."""
    ids: list[list[int]] = theirs(**{side: texts}, add_special_tokens=False)["input_ids"]
    return ids


def equal_texts(ours: Tokenizer, theirs: Encoder) -> tuple[int, int]:
    """Return how many of `TEXTS` random texts, made of pieces and of odd parts, have the same tokens, and how many have
    them in another order."""
    draw = random.Random(1)
    pieces = [ours.decode([token]) for token in range(ours.vocab_size) if token not in ours.special_ids]
    odd = [part for part in ODD if not (isinstance(ours, MarianTokenizer) and part in SPECIAL_NAMES)]
    texts = [
        "".join(draw.choice(pieces) if draw.random() < 0.8 else draw.choice(odd) for _ in range(draw.randrange(20)))
        for _ in range(TEXTS)
    ]
    pairs = list(zip(ours.encode_batch(texts), theirs(texts), strict=True))
    equal = sum(mine == other for mine, other in pairs)
    return equal, sum(sorted(mine) == sorted(other) for mine, other in pairs) - equal
