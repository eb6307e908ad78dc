"""Texts that continue a prompt: from the prompt to token ids, and from sampled tokens to the text that is shown.

What is shown is never half a character, and never the beginning of a stop string.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator

from data.tokens.tokenizer import Tokenizer
from generation.config import WritingConfig
from generation.engines.engine import Engine
from generation.input_warnings import unknown_characters

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
    # The texts of a batch grow together, but are read one after the other: each is held back until its turn.
    for first in range(0, config.samples, BATCH):
        texts = [StreamedText(tokenizer, config.stop) for _ in range(min(BATCH, config.samples - first))]
        steps = engine.sample(start, len(texts), config.seed + first)
        for sample, current in enumerate(texts, first):
            show("-" * 20 + "\n" + echo(prompt) if sample else echo(prompt))
            while not current.ended:
                # The sampler is exhausted after `max_tokens`: then every text ends, as after its last token.
                for text, token in zip(texts, next(steps, [None] * len(texts)), strict=True):
                    text.feed(token)
                show(current.take())
            show(current.take() + "\n")
            yield start + current.tokens


def continuation(engine: Engine, prompt: str, config: WritingConfig) -> str:
    """Return the text after `prompt` of one sample: what `write_samples` prints of the first."""
    tokenizer = engine.tokenizers[0]
    text = StreamedText(tokenizer, config.stop)
    for (token,) in engine.sample([tokenizer.start_id, *tokenizer.encode(prompt)], 1, config.seed):
        text.feed(token)
        if text.ended:
            break
    text.feed(None)
    return text.take()


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


class StreamedText:
    """Tokens of one text so far, and the part of the text that can be shown."""

    def __init__(self, tokenizer: Tokenizer, stops: list[str]) -> None:
        self.tokens: list[int] = []
        self.ended = False
        """Whether the model or a stop string has ended the text; tokens fed afterwards are ignored."""
        self._waiting = ""
        # Tokens become characters first, since a stop string may begin in the middle of a token.
        self._decoder, self._stop = StreamingDecoder(tokenizer), StopText(stops)

    def feed(self, token: int | None) -> None:
        """Add a token; None ends the text."""
        if self.ended:
            return
        if token is None:
            self._waiting += self._stop.feed(self._decoder.flush()) + self._stop.flush()
        else:
            self.tokens.append(token)
            self._waiting += self._stop.feed(self._decoder.feed([token]))
        self.ended = token is None or self._stop.reached

    def take(self) -> str:
        """Return the text that arrived since the last call."""
        taken, self._waiting = self._waiting, ""
        return taken


class StopText:
    """Holds back the end of a stream while it may be the beginning of a stop string."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = stops
        self.held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """Add text and return the part that can be shown; set `reached` at a stop string, which is not shown."""
        if self.reached:
            return ""
        self.held += text
        starts = [index for stop in self.stops if (index := self.held.find(stop)) >= 0]
        if starts:
            self.reached = True
            visible, self.held = self.held[: min(starts)], ""
            return visible
        keep = max((self.overlap(stop) for stop in self.stops), default=0)
        visible, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        return visible

    def overlap(self, stop: str) -> int:
        """Return the length of the longest suffix of the held text that is a prefix of `stop`."""
        return next((n for n in range(min(len(stop) - 1, len(self.held)), 0, -1) if self.held.endswith(stop[:n])), 0)

    def flush(self) -> str:
        """Return the held-back text when the stream ends."""
        rest, self.held = self.held, ""
        return rest


class StreamingDecoder:
    """Decodes tokens as they arrive, holding back incomplete characters.

    The joined results of all calls of `feed` and the final `flush` equal `tokenizer.decode` of all ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""

    def feed(self, ids: Iterable[int]) -> str:
        """Return the text that these tokens complete; incomplete characters are held back."""
        return self._resolve(self._utf8.decode(b"".join(map(self._tokenizer.piece_bytes, ids))))

    def flush(self) -> str:
        """Return the rest, with U+FFFD for an incomplete character; the decoder is then ready for a new text."""
        text = self._resolve(self._utf8.decode(b"", final=True), final=True)
        self._utf8.reset()
        return text

    def _resolve(self, text: str, final: bool = False) -> str:
        text, self._held = self._held + text, ""
        escape = self._tokenizer.escape
        if escape is not None and text.endswith(escape) and not final:
            text, self._held = text[: -len(escape)], escape
        return self._tokenizer.unescape(text)
