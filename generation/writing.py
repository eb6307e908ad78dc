"""Generate samples that continue a prompt, streamed to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from data.tokens.tokenizer import Tokenizer
from generation.config import WritingConfig
from generation.engines.engine import Engine
from generation.source_notes import unknown_characters
from generation.streaming import StreamedText

BATCH = 32
"""Number of samples generated at a time: a batch costs little more than a single text."""

ECHO = 400
"""Number of prompt characters that a terminal shows before each sample; a file or a pipe gets the whole prompt."""


def write_samples(engine: Engine, prompt: str, config: WritingConfig) -> Iterator[list[int]]:
    """Print samples that continue `prompt`, separated by a line of dashes; yield the ids of each finished sample, with
    the prompt and the start token before it, which also precedes every document in training.

    `BATCH` samples are generated at a time. The first is streamed token by token; the second is shown when the first
    has ended, by which time most of the second has been generated, and so on.
    """
    tokenizer = engine.tokenizers[0]
    ids = tokenizer.encode(prompt)
    print_notes(tokenizer, prompt, ids, engine.context)
    start = [tokenizer.start_id, *ids]
    for first in range(0, config.samples, BATCH):
        texts = [StreamedText(tokenizer, config.stop) for _ in range(min(BATCH, config.samples - first))]
        steps = engine.sample(start, len(texts), config.seed + first)
        for sample, shown in enumerate(texts, first):
            show("-" * 20 + "\n" + echo(prompt) if sample else echo(prompt))
            while not shown.ended:
                for text, token in zip(texts, next(steps, [None] * len(texts)), strict=True):
                    text.feed(token)
                show(shown.take())
            show(shown.take() + "\n")
            yield start + shown.tokens


def print_notes(tokenizer: Tokenizer, prompt: str, ids: list[int], context: int) -> None:
    """Print notes to standard error about a prompt that the model cannot read in full."""
    if unknown := unknown_characters(tokenizer, prompt, ids):
        print(f"note: {unknown}", file=sys.stderr)
    if len(ids) == context:
        print(
            f"note: the prompt has {len(ids)} tokens, as many as the model sees at a time (model.context): it does not "
            "see the token that begins a text",
            file=sys.stderr,
        )
    if len(ids) > context:
        print(
            f"note: the prompt has {len(ids)} tokens, but the model sees at most {context} at a time (model.context): "
            f"it continues from the last {context} tokens, as if the text began there",
            file=sys.stderr,
        )


def echo(prompt: str) -> str:
    """Return the prompt as printed before each sample: in full, but on a terminal only the end of a long prompt."""
    if len(prompt) <= ECHO or not sys.stdout.isatty():
        return prompt
    return f"[… {len(prompt) - ECHO:,} characters] {prompt[-ECHO:]}"


def show(text: str) -> None:
    """Print immediately."""
    print(text, end="", flush=True)
