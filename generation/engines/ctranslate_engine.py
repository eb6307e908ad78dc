"""Decode with CTranslate2. This module does not import torch, so that a text begins two seconds sooner.

CTranslate2 spends its time in one thread for each batch here, unless the model is large: its threads within a batch
wait for each other after each operation, which made models of up to 11 million parameters 3 to 15 times as slow with
two threads as with one.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import ctranslate2

from configs.errors import UserError
from data.batches.source_sentences import source_ids
from data.cpu_cores import cores
from data.tokens.tokenizer import Tokenizer
from generation.config import GenerateConfig
from generation.engines.requirements import FORMATS
from generation.translation_result import Translation, decoded, longest_target

LARGE = 200_000_000
"""Bytes of weights from which all threads share a batch, whose time goes into reading the weights: 1.3 times as fast as
two workers for a GPT of 124 million parameters, and one copy of it."""

MOST_WORKERS = 8
"""Most batches computed at a time: for sampling, each has a copy of the weights."""

_SMALLEST = 1e-6
"""Of probabilities and temperatures. CTranslate2 computes in float32, where 1e-50 is 0, which it refuses; at this size
the most probable token is certain."""


class CTranslate2Engine:
    """An exported model (`interop.ctranslate`) on the CPU; an `Engine`."""

    def __init__(
        self, folder: Path, tokenizers: list[Tokenizer], context: int, config: GenerateConfig, stream: bool = False
    ) -> None:
        """folder: the exported model. stream: a single text arrives token by token, as for a reader, which takes up to
        twice as long; otherwise in parts of up to `context` tokens."""
        self.folder, self.tokenizers, self.context, self.config = folder, tokenizers, context, config
        self.stream = stream
        self.source, self.target = tokenizers[0].spellings, tokenizers[-1].spellings
        self.ids = {piece: token for token, piece in enumerate(self.target)}
        self.threads = available_threads()
        self._translator: Any = None

    def sample(self, prompt: list[int], texts: int, seed: int) -> Iterator[list[int | None]]:
        """Continue a prompt, as an Engine. The texts of one call are reproducible: by the seed, their number, and the
        number of threads, among which they are divided."""
        return self.continued(prompt, texts, self.seeded(texts, seed))

    def seeded(self, texts: int, seed: int) -> list[Any]:
        """Load the model for each group of texts, with random numbers of its own.

        A thread of CTranslate2 takes its seed when it samples for the first time, and keeps its random numbers until it
        ends; threads of one loaded model would all have the same.
        """
        large = self.config.quantize != "int8" and self._size() >= LARGE
        workers, threads = (1, self.threads) if large else (min(texts, self.threads, MOST_WORKERS), 1)
        start = [self.target[self.tokenizers[0].start_id]]
        loaded = []
        for number in range(workers):
            generator = self._loaded(ctranslate2.Generator, intra_threads=threads, inter_threads=1)
            ctranslate2.set_random_seed((seed + number) % (2**32 - 1))  # the last number stands for a random seed
            generator.generate_batch([start], max_length=1, sampling_topk=0)
            loaded.append(generator)
        return loaded

    def continued(self, prompt: list[int], texts: int, generators: list[Any]) -> Iterator[list[int | None]]:
        """Yield the steps of `sample` with loaded models."""
        groups = divided(texts, len(generators))
        windows, left = [prompt[-self.context :]] * texts, self.config.max_tokens
        alive = set(range(texts))
        while alive and left:
            room = min(left, self.context - len(windows[min(alive)]) + 1)
            if texts == 1 and self.stream:
                new = [(yield from self._streamed(generators[0], windows[0], room))]
            else:
                new = self._written(generators, groups, windows, alive, room)
                yield from in_steps(new, room)
            alive = {row for row in alive if len(new[row]) == room}
            left -= room
            for row in alive:  # the last token came from a window of the whole context, which is halved
                seen = [*windows[row], *new[row][:-1]]
                windows[row] = [*(seen if len(seen) < self.context else seen[-(self.context // 2) :]), new[row][-1]]

    def _streamed(self, generator: Any, window: list[int], room: int) -> Generator[list[int | None], None, list[int]]:
        """Yield up to `room` tokens as they come, then None if the text has ended; returns the tokens.

        The thread of CTranslate2 calls `receive`. Whatever ends this function, it waits for the thread: one that calls
        Python while the interpreter exits would abort the process. (So does `generate_tokens` of the library.)
        """
        steps: SimpleQueue[int] = SimpleQueue()
        stopped = False

        def receive(step: Any) -> bool:
            steps.put(step.token_id)
            return stopped

        options = self._options(room) | {"asynchronous": True, "callback": receive}
        (result,) = generator.generate_batch([self._pieces(window)], **options)
        written: list[int] = []
        try:
            while len(written) < room:
                try:
                    token = steps.get(timeout=1)
                except Empty:
                    if result.done() and steps.empty():
                        break  # it failed: the result raises the reason
                    continue
                if token in self.tokenizers[0].stop_ids:
                    yield [None]
                    break
                written.append(token)
                yield [token]
        finally:
            stopped = True
            result.result()
        return written

    def _written(
        self, generators: list[Any], groups: list[range], windows: list[list[int]], alive: set[int], room: int
    ) -> list[list[int]]:
        """Return up to `room` tokens of each text that is alive; fewer if it has ended."""
        new: list[list[int]] = [[] for _ in windows]
        running: list[tuple[int, Any]] = []
        for generator, group in zip(generators, groups, strict=True):
            if rows := [row for row in group if row in alive]:
                prompts = [self._pieces(windows[row]) for row in rows]
                results = generator.generate_batch(prompts, asynchronous=True, **self._options(room))
                running += zip(rows, results, strict=True)
        for row, result in running:
            new[row] = result.result().sequences_ids[0]
        return new

    def _options(self, room: int) -> dict[str, Any]:
        config = self.config
        ends = [self.target[token] for token in sorted(self.tokenizers[0].stop_ids)]
        options = {"max_length": room, "end_token": ends, "include_prompt_in_result": False}
        if config.temperature == 0:
            return options | {"sampling_topk": 1}
        top_k = config.top_k if config.top_k is not None and config.top_k < len(self.target) else 0
        top_p = 1.0 if config.top_p is None else max(config.top_p, _SMALLEST)
        temperature = max(config.temperature, _SMALLEST)
        return options | {"sampling_temperature": temperature, "sampling_topk": top_k, "sampling_topp": top_p}

    def _pieces(self, tokens: list[int]) -> list[str]:
        return [self.target[token] for token in tokens]

    def translate(self, portions: Iterable[Sequence[str]]) -> Generator[tuple[int, list[Translation]], None, None]:
        """Translate sentences, as an Engine."""
        first = 0
        running: deque[tuple[list[int], list[list[int]], list[Any]]] = deque()
        for sentences in portions:
            full = [place for place, sentence in enumerate(sentences) if sentence.strip()]
            yield from (
                (first + place, [Translation("", 0.0)])
                for place in range(len(sentences))
                if not sentences[place].strip()
            )
            sources = source_ids(self.tokenizers[0], [sentences[place] for place in full], self.config.reverse)
            sources = [ids[: self.context - 1] for ids in sources]  # eos is added
            running.append(([first + place for place in full], sources, self._submit(sources, self.context - 1)))
            first += len(sentences)
            if len(running) > 1:
                yield from self._finished(*running.popleft())
        while running:
            yield from self._finished(*running.popleft())

    def _submit(self, sources: list[list[int]], limit: int) -> list[Any]:
        """Begin to translate sources -> a result for each, in order, that may not be ready."""
        if not sources:
            return []
        if self._translator is None:
            self._translator = self._loaded(
                ctranslate2.Translator, intra_threads=1, inter_threads=self.threads, max_queued_batches=-1
            )
        results: list[Any] = self._translator.translate_batch(
            [[self.source[token] for token in ids] for ids in sources],
            asynchronous=True,
            beam_size=self.config.beam_size,
            length_penalty=self.config.length_penalty,
            max_batch_size=self.config.batch_tokens,
            batch_type="tokens",
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,  # its default excludes eos as the first token, and thus raises the score of others
            return_scores=True,
        )
        return results

    def _finished(
        self, places: list[int], sources: list[list[int]], results: list[Any]
    ) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the translations of a portion.

        CTranslate2 has one limit of length for all sentences. The few sentences whose translation reaches their own
        limit (`longest_target`) are translated again, with this limit.
        """
        again: dict[int, list[int]] = {}
        for number, (place, ids) in enumerate(zip(places, sources, strict=True)):
            limit = longest_target(len(ids) + 1, self.context)
            translation = self._translation(results[number].result(), limit)
            if len(translation.tokens) >= limit and limit < self.context - 1:
                again.setdefault(limit, []).append(number)
            else:
                yield place, [translation]
        for limit, numbers in again.items():
            shorter = self._submit([sources[number] for number in numbers], limit)
            for number, result in zip(numbers, shorter, strict=True):
                yield places[number], [self._translation(result.result(), limit)]

    def _translation(self, result: Any, limit: int) -> Translation:
        tokens = [self.ids[piece] for piece in result.hypotheses[0]]
        return decoded(tokens, result.scores[0], self.tokenizers[-1], limit)

    def _size(self) -> int:
        """Return the size of the weights in bytes."""
        try:
            return (self.folder / "model.bin").stat().st_size
        except OSError as error:
            raise self._unusable(f"model.bin: {error.strerror}") from error

    def _loaded(self, kind: Any, **options: int) -> Any:
        try:
            return kind(str(self.folder), device="cpu", compute_type=FORMATS[self.config.quantize], **options)
        except (RuntimeError, ValueError) as error:
            raise self._unusable(str(error).strip().splitlines()[0]) from error

    def _unusable(self, reason: str) -> UserError:
        if not self.folder.exists():
            return UserError(f"{self.folder}: is gone, as after training has replaced these weights; start again")
        return UserError(f"{self.folder}: CTranslate2 cannot load it ({reason}); delete this folder")


def available_threads() -> int:
    """Return the number of cores that this process may use, or the value of OMP_NUM_THREADS if that is lower."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(wanted)) if wanted.isdecimal() and int(wanted) > 0 else cores()


def divided(count: int, groups: int) -> list[range]:
    """Divide 0 … count - 1 into groups of consecutive numbers whose sizes differ by at most one."""
    return [range(count * group // groups, count * (group + 1) // groups) for group in range(groups)]


def in_steps(texts: list[list[int]], room: int) -> Iterator[list[int | None]]:
    """Yield the tokens of each step, None for texts that have ended, which have fewer than `room` tokens."""
    for step in range(min(room, max(map(len, texts)) + 1)):
        yield [text[step] if step < len(text) else None for text in texts]
