"""Using a trained run: streaming text from a GPT, translating lines."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, takewhile

import torch
from tqdm import tqdm

from configs.errors import UserError
from configs.program import expanded
from data.tokens.tokenizer import Tokenizer
from generation.inputs import count_lines, read_lines, typed, up_to_failure
from generation.sampling import generate
from generation.streaming import StreamedText
from generation.translation import Translation, TranslationOptions, in_order, translate, windows
from model.encoder_decoder import EncoderDecoder
from model.fast.decoding import prepare
from model.gpt import GPT
from training.generated_maps import GeneratedMaps, shortened
from training.generation_config import GenerateConfig, problems
from training.hardware.machine import choose_hardware, decoding_format
from training.hardware.out_of_memory import advised, generation_advice
from training.run_folder.layout import LoadedRun, Model, load_run
from training.run_folder.saved_config import load_config
from training.source_notes import SourceNotes, unknown_characters

WRITTEN_TOGETHER = 32
"""Samples of one prompt that are written at the same time: a batch costs little more than one text of it."""

ECHO = 400
"""Characters of a prompt that a terminal shows again before what is written to it; a file or a pipe gets all of it."""


def execute(config: GenerateConfig, given: set[str]) -> None:
    """Load the run and hand every input to it; `given` are the keys that the user wrote."""
    run = expanded(str(config.run))
    task = load_config(run).task
    if found := problems(config, task, given):
        raise UserError(*found)
    loaded = load_run(run, config.checkpoint)
    device = choose_hardware(config.device, "float32", None, key="device").device
    loaded.model.to(device)
    ready = replace(loaded, model=ready_to_decode(loaded.model, config, device))

    def answer(config: GenerateConfig, lines: Iterable[str | None], count: int | None = None) -> None:
        """Go on with the text of these lines, or translate each of them; `count` of them, where that is known."""
        maps = GeneratedMaps(loaded) if config.attention else None
        with advised(lambda: generation_advice(config, task)):
            if task == "gpt":
                write(ready, config, "\n".join(line for line in lines if line is not None), maps)
            else:
                translate_lines(ready, config, lines, count, maps)
            if maps:
                maps.record()

    if config.prompt is not None:
        answer(config, config.prompt.split("\n"))
    elif sys.stdin is not None and sys.stdin.isatty():
        converse(answer, config if "seed" in given else replace(config, seed=random.randrange(10**6)), task)
    else:
        answer(config, read_lines(), count_lines() if task == "translate" else None)


def converse(answer: Callable[[GenerateConfig, list[str]], None], config: GenerateConfig, task: str) -> None:
    """Answer what is typed at a terminal, each time with another seed. Ctrl-C ends an answer, not the conversation."""
    for text in typed(task):
        try:
            answer(config, [text])
        except KeyboardInterrupt:
            print()
        if task == "gpt" and config.temperature:
            print(f"(seed={config.seed})", file=sys.stderr)
            config = replace(config, seed=config.seed + config.samples)


def ready_to_decode(model: Model, config: GenerateConfig, device: torch.device) -> Model:
    """The model in the asked-for format, or the one that is fast here; the caller keeps the exact weights for
    the maps."""
    quantize = config.quantize
    if quantize == "int8":
        if device.type != "cpu":
            raise UserError(
                f"quantize=int8: only a CPU gains by it; leave it out, or add device=cpu (device is {device.type})"
            )
        rounded = "weights" if isinstance(model, GPT) and config.samples == 1 else "weights and activations"
        print(f"note: {rounded} are rounded to 8 bits (quantize=int8)", file=sys.stderr)
    weights = quantize or decoding_format(device, sum(p.numel() for p in model.parameters()))
    rows = min(config.samples, WRITTEN_TOGETHER) if isinstance(model, GPT) else None
    return prepare(model, weights, rows)


def write(run: LoadedRun, config: GenerateConfig, prompt: str, maps: GeneratedMaps | None) -> None:
    """Go on with `prompt` and stream the text to standard output; samples are separated by a line of dashes.

    The text begins after an eos, as every document in training did.
    """
    assert isinstance(run.model, GPT)
    tokenizer = run.tokenizers[0]
    ids = tokenizer.encode(prompt)
    if unknown := unknown_characters(tokenizer, prompt, ids):
        print(f"note: {unknown}", file=sys.stderr)
    context = run.model.config.context
    if len(ids) > context:
        print(
            f"note: the prompt has {len(ids)} tokens, but the model sees at most {context} at a time (model.context): "
            f"it goes on from the last {context} of them, as if the text began there",
            file=sys.stderr,
        )
    start = [tokenizer.eos_id, *ids]
    for sample, text in enumerate(stream_samples(run.model, tokenizer, prompt, start, config), 1):
        if maps:
            maps.add_text(start + text.tokens, shortened(prompt, f"sample {sample}"))


def stream_samples(
    model: GPT, tokenizer: Tokenizer, prompt: str, start: list[int], config: GenerateConfig
) -> Iterator[StreamedText]:
    """Write the samples that go on from the tokens `start`, `WRITTEN_TOGETHER` at a time -> each when it is done.

    The first of them is shown as it comes, the next as soon as it has ended, by which time most of it has been written.
    """
    for first in range(0, config.samples, WRITTEN_TOGETHER):
        texts = [StreamedText(tokenizer, config.stop) for _ in range(min(WRITTEN_TOGETHER, config.samples - first))]
        steps = generate(
            model,
            [start] * len(texts),
            config.sampling,
            seed=config.seed + first,
            stop_ids={tokenizer.eos_id},
            banned_ids=tokenizer.never_written,
        )
        for sample, shown in enumerate(texts, first):
            show("-" * 20 + "\n" + echo(prompt) if sample else echo(prompt))
            while not shown.ended:
                for text, token in zip(texts, next(steps, [None] * len(texts)), strict=True):
                    text.feed(token)
                show(shown.take())
            print(shown.take(), flush=True)
            yield shown


def echo(prompt: str) -> str:
    """The prompt as it is written before each text: all of it, but on a terminal only the end of a long one."""
    if len(prompt) <= ECHO or not sys.stdout.isatty():
        return prompt
    return f"[… {len(prompt) - ECHO:,} characters] {prompt[-ECHO:]}"


def show(text: str) -> None:
    """Write to the terminal at once."""
    print(text, end="", flush=True)


def translate_lines(
    run: LoadedRun, config: GenerateConfig, lines: Iterable[str | None], count: int | None, maps: GeneratedMaps | None
) -> None:
    """Translate lines as they come; output lines keep order and count, empty lines included.

    Each is written as soon as it and those before it are ready: an interruption leaves everything that is done. Where
    the next line has to be waited for (None), all before it are written first. White space around a line is dropped, as
    it is from the sentences of training.
    """
    model = run.model
    assert isinstance(model, EncoderDecoder)
    options = TranslationOptions(config.beam_size, config.length_penalty, config.n_best, config.batch_tokens)
    notes = SourceNotes(run)
    failures: list[UserError] = []
    waiting: deque[str] = deque()

    def portions() -> Iterator[list[str]]:
        stripped = (line and line.strip() for line in up_to_failure(lines, failures))
        for window in windows(stripped, options.batch_tokens):
            notes.check(window)
            waiting.extend(window)
            yield window

    def translations() -> Generator[list[Translation], None, None]:
        arriving = portions()
        for first in filter(None, arriving):
            until_pause = chain([first], takewhile(bool, arriving))
            with closing(translate(model, run.tokenizers, until_pause, options)) as results:
                yield from in_order(results)

    # Where the translations appear on the terminal, they are the progress.
    hidden = True if sys.stdout.isatty() else None
    with (
        tqdm(total=count, desc="translating", unit="line", disable=hidden, delay=2) as bar,
        closing(translations()) as results,
    ):
        for number, found in enumerate(results, 1):
            line = waiting.popleft()
            print_translation(number, found, config.n_best)
            bar.update()
            if maps and line:
                maps.add_translation(line, found[0])
    notes.close()
    if failures:
        raise failures[0]


def print_translation(line: int, found: list[Translation], n_best: int) -> None:
    """The best translation on a line of its own, or the n best with the line they translate, rank and score."""
    if n_best == 1:
        show(found[0].text + "\n")
        return
    ranks = enumerate(found, 1)
    show("".join(f"{line}\t{rank}\t{one.score:.4f}\t{one.text}\n" for rank, one in ranks))
