"""Translate many sentences in batches of similar length; each result carries the index of its sentence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
from tqdm import tqdm

from data.batches.pairs import SourceBatch, encode_sources
from data.tokens.tokenizer import Tokenizer
from generation.beam_search import beam_search
from generation.config import TranslationConfig
from generation.cuda.beam_search import GraphBeamSearch, beam_search_with_graphs
from generation.ensemble import Ensemble
from generation.fast_decoding import prepare
from generation.mbr.epsilon_sampling import epsilon_sampling, seed_of
from generation.mbr.most_similar import most_similar
from generation.neighbours.datastore import build_datastore
from generation.neighbours.translation_memory import TranslationMemory
from generation.translation_result import Numbered, Translation, decoded, distinct, longest_target
from model.encoder_decoder import EncoderDecoder

WIDEST = 8
"""Number of samples per sentence (`config.mbr`) above which batches have fewer tokens, so that memory is bounded."""


def translate(
    model: EncoderDecoder,
    tokenizers: list[Tokenizer],
    portions: Iterable[Sequence[str]],
    config: TranslationConfig,
    workers: int | None = None,
    rank: int = 0,
    world: int = 1,
    memory: TranslationMemory | None = None,
) -> Generator[tuple[int, list[Translation]], None, None]:
    """Translate sentences portion by portion, longest first; yield (index, n-best list) as results become ready.

    Indices count the sentences of all portions. A portion is requested while earlier portions are being translated.
    Empty sentences (white space only) have an empty translation and skip the model. Sources longer than the context are
    truncated. workers: number of batches decoded concurrently; None: one per torch thread on a CPU, at most 4; else 1.
    Of several processes (`world`), each translates every `world`-th batch, from number `rank` on: the batches, and
    therefore the translations, do not depend on the number of processes. memory: the pairs among which neighbours are
    retrieved (`config.neighbours`); None for no retrieval. With `config.mbr`, each n-best list is the one translation
    that minimum Bayes risk decoding chooses.
    """
    source, target = tokenizers[0], tokenizers[-1]
    device = next(model.parameters()).device
    context, mbr = model.config.context, config.mbr
    batch_tokens = max(1, config.batch_tokens * WIDEST // max(WIDEST, mbr.samples))

    def search(places: list[int], sentences: list[str], batch: SourceBatch) -> Numbered:
        neighbours = None
        if memory is not None:
            neighbours = build_datastore(model, tokenizers, memory, sentences, config)
        limits = [longest_target(length, context) for length in batch.lengths.tolist()]
        inputs: dict[str, Any] = {
            "source": batch.source.to(device),
            "source_mask": None if batch.source_mask is None else batch.source_mask.to(device),
            "bos_id": target.bos_id,
            "eos_id": target.eos_id,
            "max_length": torch.tensor(limits),
            "length_penalty": config.length_penalty,
            "banned_ids": target.never_written,
        }
        n_best = config.beam_size if mbr.samples or config.n_best > 1 else 1
        beams: dict[str, Any] = {"beam_size": config.beam_size, "n_best": n_best}
        # A CUDA graph removes the cost of launching a step's kernels, but holds one model and no datastore.
        single = neighbours is None and not isinstance(model, Ensemble)
        if single and GraphBeamSearch.applies(device, max(limits), context):
            hypotheses = beam_search_with_graphs(model, **inputs, **beams)
        else:
            hypotheses = beam_search(model, **inputs, **beams, neighbours=neighbours)
        if mbr.samples:
            seeds = [seed_of(sentence) for sentence in sentences]
            draws: dict[str, Any] = {
                "samples": mbr.samples,
                "epsilon": mbr.epsilon,
                "seeds": seeds,
                "neighbours": neighbours,
            }
            sampled = epsilon_sampling(model, **inputs, **draws)
            hypotheses = [best + others for best, others in zip(hypotheses, sampled, strict=True)]
        translations = (
            [decoded(hypothesis.tokens, hypothesis.score, target, limit) for hypothesis in best]
            for best, limit in zip(hypotheses, limits, strict=True)
        )
        if mbr.samples:
            translations = ([most_similar(candidates)] for candidates in translations)
        return list(zip(places, (distinct(best)[: config.n_best] for best in translations), strict=True))

    def searches() -> Iterator[Callable[[], Numbered]]:
        first = 0
        for sentences in portions:
            empty = [place for place, sentence in enumerate(sentences) if not sentence.strip()]
            full = [place for place, sentence in enumerate(sentences) if sentence.strip()]
            if empty:  # nothing to search for
                yield partial(list, [(first + place, [Translation("", 0.0)]) for place in empty])
            texts = [sentences[place] for place in full]
            for batch in encode_sources(source, texts, batch_tokens, context, config.reverse):
                places, chosen = [first + full[index] for index in batch.indices], [texts[i] for i in batch.indices]
                yield partial(search, places, chosen, batch)
            first += len(sentences)

    threads = torch.get_num_threads() if device.type == "cpu" else 1
    for translations in in_parallel(islice(searches(), rank, None, world), workers or min(threads, 4)):
        yield from translations


def in_parallel(searches: Iterator[Callable[[], Numbered]], workers: int) -> Iterator[Numbered]:
    """Yield the results of `searches`, in order, from `workers` threads that divide torch's threads among themselves.

    A search step is many short operations, and threads that share an operation wait for each other after it: two
    workers with one thread each are 1.06 times as fast as one worker with two threads, and several times as fast on a
    busy machine. An exception in a search is raised here. Only the next few searches are taken from `searches`. If the
    caller stops early (also with Ctrl-C), waiting searches are dropped and running searches finish.
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
        running: deque[Future[Numbered]] = deque()
        for search in searches:
            running.append(pool.submit(search))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # applies to this thread, and is the initial value of new threads


def translate_part(
    model: EncoderDecoder,
    tokenizers: list[Tokenizer],
    sentences: list[str],
    config: TranslationConfig,
    rank: int = 0,
    world: int = 1,
    memory: TranslationMemory | None = None,
) -> dict[int, Translation]:
    """Return the best translations of this process's part of the sentences (see `translate`), by index, with a model
    copy prepared for decoding."""
    ready = prepare(model, "bf16" if next(model.parameters()).dtype == torch.bfloat16 else "float32")
    results = translate(ready, tokenizers, [sentences], config, rank=rank, world=world, memory=memory)
    count = len(sentences) if world == 1 else None
    bar = tqdm(results, desc="translating", unit="line", total=count, leave=False, disable=None, delay=2)
    return {index: best[0] for index, best in bar}


def best_translations(
    model: EncoderDecoder, tokenizers: list[Tokenizer], sentences: list[str], config: TranslationConfig
) -> list[Translation]:
    """Return the best translation of each sentence, in order."""
    best = {index: hypotheses[0] for index, hypotheses in translate(model, tokenizers, [sentences], config)}
    return [best[index] for index in range(len(sentences))]
