"""Translating many sentences: batches of like length, each result with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from torch import Tensor

from data.pairs import SourceBatch, encode_sources
from data.tokenizer import Tokenizer
from model.beam_search import Hypothesis, beam_search
from model.decoding import prepare
from model.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Translation:
    """One hypothesis of one sentence."""

    text: str
    score: float
    """Log-probability in nats divided by length ** length_penalty: the larger, the better."""
    tokens: list[int] = field(default_factory=list)
    """What was written, without eos: the text may be segmented otherwise when it is encoded again."""


@dataclass(frozen=True)
class TranslationOptions:
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 1.0
    n_best: int = 1
    batch_tokens: int = 1024
    """Source tokens decoded together, padding included."""
    workers: int | None = None
    """Batches decoded at the same time; null means one for each thread that torch has on a CPU, at most 4, else 1."""


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
    asked = []
    for index, sentence in enumerate(sentences):
        if sentence.strip():
            asked.append(index)
        else:
            yield index, [Translation("", 0.0)]

    def search(batch: SourceBatch) -> list[list[Hypothesis]]:
        return beam_search(
            model, batch.source.to(device), None if batch.source_mask is None else batch.source_mask.to(device),
            bos_id=target.bos_id, eos_id=target.eos_id, beam_size=options.beam_size,
            max_length=longest_targets(batch.lengths, context), length_penalty=options.length_penalty,
            n_best=options.n_best, banned_ids=target.never_written,
        )  # fmt: skip

    batches = list(encode_sources(source, [sentences[index] for index in asked], options.batch_tokens, context))
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    workers = min(options.workers or min(threads, 4), len(batches))
    for batch, hypotheses in in_parallel(search, batches, workers):
        for place, found in zip(batch.indices, hypotheses, strict=True):
            yield asked[place], [readable(hypothesis, target) for hypothesis in found]


def in_parallel(
    search: Callable[[SourceBatch], list[list[Hypothesis]]], batches: list[SourceBatch], workers: int
) -> Iterator[tuple[SourceBatch, list[list[Hypothesis]]]]:
    """Each batch with what `search` finds for it, in order, `workers` at a time in threads that share torch's threads.

    A step of a search is many short operations. Two workers of one thread each translate 1.06 times as fast as one of
    two, and on a busy machine several times: threads that share an operation wait for each other at the end of each.
    What a search raises is raised here. When the caller stops early, by Ctrl-C too, waiting batches are dropped and
    those under way finish first.
    """
    if workers <= 1:
        yield from ((batch, search(batch)) for batch in batches)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(max(1, threads // workers),))
    try:
        running = [pool.submit(search, batch) for batch in batches]
        for batch, future in zip(batches, running, strict=True):
            yield batch, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the number is each thread's own, but also the start value of new threads


def translate_all(
    model: EncoderDecoder, tokenizers: list[Tokenizer], sentences: list[str], options: TranslationOptions
) -> list[str]:
    """The text of the best translation of each sentence, in order, by a model made ready for it in its own format."""
    ready = prepare(model, "bf16" if next(model.parameters()).dtype == torch.bfloat16 else "float32")
    return [translation.text for translation in best_translations(ready, tokenizers, sentences, options)]


def best_translations(
    model: EncoderDecoder, tokenizers: list[Tokenizer], sentences: list[str], options: TranslationOptions
) -> list[Translation]:
    """The best translation of each sentence, in order."""
    best = {index: found[0] for index, found in translate(model, tokenizers, sentences, options)}
    return [best[index] for index in range(len(sentences))]


def overlong(tokenizer: Tokenizer, sentences: list[str], context: int) -> list[int]:
    """Indices of sentences that do not fit the context together with their end token."""
    return [index for index, ids in enumerate(tokenizer.encode_batch(sentences)) if len(ids) > context - 1]


def longest_targets(source_lengths: Tensor, context: int) -> Tensor:
    """The longest translation looked for, for each source: three times its length and a little, within the context.

    Each its own, so that a translation does not depend on the sentences that share its batch.
    """
    return (3 * source_lengths + 10).clamp(max=context - 1)


def readable(hypothesis: Hypothesis, tokenizer: Tokenizer) -> Translation:
    """Tokens to text; a translation is one line whatever the model wrote."""
    text = " ".join(tokenizer.decode(hypothesis.tokens).split("\n"))
    return Translation(text, hypothesis.score, list(hypothesis.tokens))
