"""Evaluation: full-pass loss, translation scores beside their baselines, samples to read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tqdm import tqdm

from data.batches.batch import Batch
from data.prepare import PreparedPairs
from data.tokens.tokenizer import Tokenizer
from generation.config import SamplingConfig, TranslationConfig
from generation.cuda.host_copy import HostCopy
from generation.sampling import generate
from generation.translation import translate_all
from model.encoder_decoder import EncoderDecoder
from model.fast.decoding import prepare
from model.gpt import GPT
from training.evaluation.translation_scores import Scores, TranslationMemory, constant_sentence, score
from training.hardware.machine import decoding_format
from training.loss import token_losses

REMEMBERED = 200_000
"""Training pairs among which the translation memory looks for the nearest: 2 ms for each sentence on one core."""


@dataclass(frozen=True)
class HeldOutLoss:
    """Cross-entropy of every token of a split."""

    nats: float
    """Sum over all tokens."""
    tokens: int
    bytes: int
    """Length of the same text in UTF-8, which no tokenizer changes."""

    @property
    def per_token(self) -> float:
        """Mean in nats."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp of the mean, infinite where that overflows."""
        return math.exp(self.per_token) if self.per_token < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Comparable between vocabularies."""
        return self.nats / math.log(2) / self.bytes


def held_out_loss(model: GPT | EncoderDecoder, batches: Iterable[Batch], split_bytes: int) -> HeldOutLoss:
    """One full pass: the same tokens every time, each counted once."""
    device = next(model.parameters()).device
    losses, tokens = [], 0
    for batch in tqdm(batches, desc="validation", leave=False, disable=None, delay=2, unit="batch"):
        here = batch.to(device)
        losses.append(HostCopy(token_losses(model, here.model_inputs, here.targets).sum()))
        tokens += batch.target_tokens
    return HeldOutLoss(math.fsum(loss.values() for loss in losses), tokens, split_bytes)


@dataclass(frozen=True)
class TranslationExample:
    """One row of the table shown at each evaluation."""

    source: str
    reference: str
    hypothesis: str


def translate_rows(
    model: EncoderDecoder, tokenizers: list[Tokenizer], rows: dict[str, list[str]], config: TranslationConfig
) -> tuple[Scores, list[TranslationExample]]:
    """Translate `rows` (columns source and target), score them and return them for reading."""
    hypotheses = translate_all(model, tokenizers, rows["source"], config)
    examples = list(map(TranslationExample, rows["source"], rows["target"], hypotheses))
    return score(hypotheses, rows["target"]), examples


def baselines(prepared: PreparedPairs, sources: list[str], references: list[str]) -> dict[str, Scores]:
    """Scores of answers that need no learning, from the training split: `REMEMBERED` of its pairs, evenly spread, if it
    has more."""
    train = prepared.rows("train")
    kept = train.select(range(0, len(train), -(-len(train) // REMEMBERED)))
    targets = kept["target"][:]
    memory = TranslationMemory(kept["source"][:], targets)
    which = "training sentence" if len(kept) == len(train) else f"of {len(kept):,} training sentences"
    nearest = [
        memory.translate(s) for s in tqdm(sources, desc="translation memory", leave=False, disable=None, delay=2)
    ]
    return {
        f"nearest {which}": score(nearest, references),
        "most frequent sentence": score([constant_sentence(targets)] * len(references), references),
    }


def write_samples(model: GPT, tokenizer: Tokenizer, prompt: str, count: int, seed: int, max_tokens: int) -> list[str]:
    """Sample texts from one prompt; an empty prompt means: begin a document. Leaves model and global random state
    alone."""
    first = next(model.parameters())
    ready = prepare(model, decoding_format(first.device, sum(p.numel() for p in model.parameters())))
    config = SamplingConfig(max_tokens=max_tokens)
    prompts = [[tokenizer.eos_id, *tokenizer.encode(prompt)] for _ in range(count)]
    written: list[list[int]] = [[] for _ in prompts]
    for tokens in generate(
        ready, prompts, config, seed=seed, stop_ids={tokenizer.eos_id}, banned_ids=tokenizer.never_written
    ):
        for text, token in zip(written, tokens, strict=True):
            if token is not None:
                text.append(token)
    return [prompt + tokenizer.decode(ids) for ids in written]
