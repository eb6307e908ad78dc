"""Translating many sentences: batches of like length, each result with its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

import torch
from torch import Tensor

from data.batches.pairs import SourceBatch, encode_sources
from data.tokens.tokenizer import Tokenizer
from generation.beam_search import beam_search
from generation.beam_step import Hypothesis
from model.encoder_decoder import EncoderDecoder
from model.fast.decoding import prepare


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


FIRST_WINDOW = 64
"""Lines of the first portion of a stream."""

Found = list[tuple[int, list[Translation]]]
"""Sentences of a batch by their index, each with its translations, best first."""


def translate(
    model: EncoderDecoder, tokenizers: list[Tokenizer], portions: Iterable[Sequence[str]], options: TranslationOptions
) -> Generator[tuple[int, list[Translation]], None, None]:
    """Translate sentences portion by portion, each longest first; yields (index, n-best list) as they get ready.

    Indices count the sentences of all portions. A portion is asked for while those before it are still being
    translated. Empty sentences (white space only) are not asked of the model: their translation is empty. Sources
    longer than the model's context are cut to it.
    """
    source, target = tokenizers[0], tokenizers[-1]
    device = next(model.parameters()).device
    context = model.config.context

    def search(places: list[int], batch: SourceBatch) -> Found:
        hypotheses = beam_search(
            model,
            batch.source.to(device),
            None if batch.source_mask is None else batch.source_mask.to(device),
            bos_id=target.bos_id,
            eos_id=target.eos_id,
            beam_size=options.beam_size,
            max_length=longest_targets(batch.lengths, context),
            length_penalty=options.length_penalty,
            n_best=options.n_best,
            banned_ids=target.never_written,
        )
        found = ([readable(hypothesis, target) for hypothesis in best] for best in hypotheses)
        return list(zip(places, found, strict=True))

    def searches() -> Iterator[Callable[[], Found]]:
        first = 0
        for sentences in portions:
            empty = [place for place, sentence in enumerate(sentences) if not sentence.strip()]
            asked = [place for place, sentence in enumerate(sentences) if sentence.strip()]
            if empty:
                blank = [(first + place, [Translation("", 0.0)]) for place in empty]
                yield partial(list, blank)  # nothing to search for
            texts = [sentences[place] for place in asked]
            for batch in encode_sources(source, texts, options.batch_tokens, context):
                yield partial(search, [first + asked[index] for index in batch.indices], batch)
            first += len(sentences)

    threads = torch.get_num_threads() if device.type == "cpu" else 1
    for found in in_parallel(searches(), options.workers or min(threads, 4)):
        yield from found


def in_order(results: Iterator[tuple[int, list[Translation]]]) -> Iterator[list[Translation]]:
    """What `translate` yields, each as soon as all before it have been yielded."""
    waiting: dict[int, list[Translation]] = {}
    due = 0
    for index, found in results:
        waiting[index] = found
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def windows(lines: Iterable[str | None], batch_tokens: int) -> Iterator[list[str]]:
    """Lines of a stream in portions for `translate`, so that memory does not grow with the stream.

    Batches of like length need many lines to choose from: `batch_tokens` / 2 lines fill about ten. The first portions
    are smaller, so that the first translations come early. Where the stream pauses (None), what there is makes a
    portion, and an empty one follows.
    """
    largest = max(1, batch_tokens // 2)
    size = min(FIRST_WINDOW, largest)
    window: list[str] = []
    for line in lines:
        if line is not None:
            window.append(line)
        if window and (line is None or len(window) == size):
            yield window
            window, size = [], min(2 * size, largest)
        if line is None:
            yield []
    if window:
        yield window


def in_parallel(searches: Iterator[Callable[[], Found]], workers: int) -> Iterator[Found]:
    """What each of `searches` finds, in order, `workers` at a time in threads that share torch's threads.

    A step of a search is many short operations. Two workers of one thread each translate 1.06 times as fast as one of
    two, and on a busy machine several times: threads that share an operation wait for each other at the end of each.
    What a search raises is raised here. Only the next few are taken from `searches`. When the caller stops early, by
    Ctrl-C too, waiting ones are dropped and those under way finish first.
    """
    first = list(islice(searches, workers))
    workers = min(workers, len(first))
    searches = chain(first, searches)
    if workers <= 1:
        yield from (search() for search in searches)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(max(1, threads // workers),))
    try:
        running: deque[Future[Found]] = deque()
        for search in searches:
            running.append(pool.submit(search))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
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
    best = {index: found[0] for index, found in translate(model, tokenizers, [sentences], options)}
    return [best[index] for index in range(len(sentences))]


def longest_targets(source_lengths: Tensor, context: int) -> Tensor:
    """The longest translation looked for, for each source: three times its length and a little, within the context.

    Each its own, so that a translation does not depend on the sentences that share its batch.
    """
    return (3 * source_lengths + 10).clamp(max=context - 1)


def readable(hypothesis: Hypothesis, tokenizer: Tokenizer) -> Translation:
    """Tokens to text; a translation is one line whatever the model wrote."""
    text = " ".join(tokenizer.decode(hypothesis.tokens).split("\n"))
    return Translation(text, hypothesis.score, list(hypothesis.tokens))
