"""Using a trained run: streaming text from a GPT, translating lines."""

from __future__ import annotations

import sys
import unicodedata

import torch
from tqdm import tqdm

from data.tokenizer import StreamingDecoder, Tokenizer
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.sampling import SamplingConfig, generate
from training.generation_config import GenerateConfig
from training.run_folder import LoadedRun
from training.translation import Translation, TranslationOptions, overlong, translate


class StopText:
    """Holds back the end of a stream while it may be the beginning of a stop text."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = stops
        self.held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """Add text -> what can be shown now; `reached` turns true at a stop text, which is not shown."""
        if self.reached:
            return ""
        self.held += text
        found = [index for stop in self.stops if (index := self.held.find(stop)) >= 0]
        if found:
            self.reached = True
            shown, self.held = self.held[: min(found)], ""
            return shown
        keep = max((self.overlap(stop) for stop in self.stops), default=0)
        shown, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        return shown

    def overlap(self, stop: str) -> int:
        """Length of the longest end of the held text that begins `stop`."""
        return next((n for n in range(min(len(stop) - 1, len(self.held)), 0, -1) if self.held.endswith(stop[:n])), 0)

    def flush(self) -> str:
        """What was held back when the stream ends."""
        rest, self.held = self.held, ""
        return rest


def write(run: LoadedRun, config: GenerateConfig, prompt: str) -> None:
    """Go on with `prompt` and stream the text to standard output; several samples are separated by a line of dashes."""
    assert isinstance(run.model, GPT)
    tokenizer = run.tokenizers[0]
    ids = tokenizer.encode(prompt)
    warn_unknown(tokenizer, prompt, ids)
    context = run.model.config.context
    if len(ids) + 1 > context:
        print(
            f"note: the prompt has {len(ids)} tokens, the model reads the last {context - 1} of them", file=sys.stderr
        )
    sampling = SamplingConfig(
        temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, min_p=config.min_p,
        repetition_penalty=config.repetition_penalty, max_new_tokens=config.max_tokens,
    )  # fmt: skip
    for sample in range(config.samples):
        if sample:
            print("-" * 20)
        generator = torch.Generator().manual_seed(config.seed + sample)
        stream_sample(
            run.model, tokenizer, prompt, [tokenizer.eos_id, *ids][-context:], sampling, generator, config.stop
        )


def stream_sample(
    model: GPT, tokenizer: Tokenizer, prompt: str, ids: list[int], sampling: SamplingConfig, generator: torch.Generator, stops: list[str]
) -> None:  # fmt: skip
    """Write one sample as it comes, never half a character."""
    show(prompt)
    decoder, stop = StreamingDecoder(tokenizer), StopText(stops)
    banned = sorted(set(tokenizer.special_ids) - {tokenizer.eos_id})
    for (token,) in generate(
        model, [ids], sampling, generator=generator, stop_ids={tokenizer.eos_id}, banned_ids=banned
    ):
        if token is None or token == tokenizer.eos_id:
            break
        show(stop.feed(decoder.feed([token])))
        if stop.reached:
            break
    show(stop.feed(decoder.flush()) + stop.flush())
    print(flush=True)


def show(text: str) -> None:
    """Write to the terminal at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def warn_unknown(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    """Name the characters that the model has never seen."""
    if tokenizer.unk_id in ids:
        unknown = sorted({character for character in text if tokenizer.unk_id in tokenizer.encode(character)})
        named = ", ".join(f"{c} ({unicodedata.name(c, f'U+{ord(c):04X}')})" for c in unknown[:5])
        print(f"note: the model has never seen {named}; it reads <unk> there", file=sys.stderr)


def translate_lines(run: LoadedRun, config: GenerateConfig, text: str) -> None:
    """Translate each line of `text`; output lines keep order and count, empty lines included."""
    assert isinstance(run.model, EncoderDecoder)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    source = run.tokenizers[0]
    context = run.model.config.context
    cut = overlong(source, lines, context)
    for index in cut[:5]:
        print(f"note: line {index + 1} is longer than the model's {context} tokens and was cut there", file=sys.stderr)
    if len(cut) > 5:
        print(f"note: so were {len(cut) - 5} more lines", file=sys.stderr)
    options = TranslationOptions(config.beam_size, config.length_penalty, config.n_best, config.batch_size)
    translations: dict[int, list[Translation]] = {}
    with tqdm(
        total=len(lines), desc="translating", unit="line", disable=None if len(lines) > 1 else True, delay=2
    ) as bar:
        for index, found in translate(run.model, run.tokenizers, lines, options):
            translations[index] = found
            bar.update()
    for index in range(len(lines)):
        print_translation(translations[index], config.n_best)
    sys.stdout.flush()


def print_translation(found: list[Translation], n_best: int) -> None:
    """The best translation on a line of its own, or the n best with rank and score."""
    if n_best == 1:
        print(found[0].text)
        return
    for rank, translation in enumerate(found, 1):
        print(f"{rank}\t{translation.score:.4f}\t{translation.text}")
