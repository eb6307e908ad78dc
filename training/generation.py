"""Using a trained run: streaming text from a GPT, translating lines."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import torch
from tqdm import tqdm

from attention_maps.record import Example
from configs.program import expanded
from data.tokenizer import Tokenizer
from model.decoding import prepare
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.sampling import generate
from training.attention_examples import translated_example
from training.attention_recorder import record_generated
from training.errors import UserError
from training.generation_config import GenerateConfig, problems
from training.hardware import choose_hardware, decoding_format
from training.run_folder import LoadedRun, Model, load_run
from training.saved_config import load_config
from training.streaming import StreamedText
from training.translation import Translation, TranslationOptions, overlong, translate

WRITTEN_TOGETHER = 32
"""Samples of one prompt that are written at the same time: a batch costs little more than one text of it."""


def execute(config: GenerateConfig, given: set[str]) -> None:
    """Load the run and hand every input to it; `given` are the keys that the user wrote."""
    run = expanded(str(config.run))
    task = load_config(run).task
    if found := problems(config, task, given):
        raise UserError(*found)
    loaded = load_run(run, config.checkpoint)
    device = choose_hardware(config.device, "float32", None).device
    loaded.model.to(device)
    ready = replace(loaded, model=ready_to_decode(loaded.model, config, device))
    handle = write if task == "gpt" else translate_lines
    for text in inputs(config.prompt, task):
        try:
            examples = handle(ready, config, text)
            if config.attention and examples:
                keep_attention(loaded, examples)
        except KeyboardInterrupt:
            if config.prompt is not None or not sys.stdin.isatty():
                raise
            print()  # Ctrl-C ends the text that is being written, not the conversation


def ready_to_decode(model: Model, config: GenerateConfig, device: torch.device) -> Model:
    """The model in the asked-for format, or the one that is fast here; the caller keeps the exact weights for the maps."""
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


def keep_attention(run: LoadedRun, examples: list[Example]) -> None:
    """Record the maps of what was just written into the run, and say where they are."""
    try:
        path, recording = record_generated(run, examples)
    except OSError as error:
        raise UserError(f"{run.folder}: the attention maps cannot be written ({error.strerror})") from error
    limit, cut = map_tokens(run), sum(sample.truncated for sample in recording.samples)
    notes = []
    if len(examples) > len(recording.samples):
        notes.append(f"of the first {len(recording.samples)} of {len(examples)} texts")
    if cut:
        notes.append(f"{cut} cut at {limit} tokens")
    print(f"attention maps: {path}{' (' + ', '.join(notes) + ')' if notes else ''}", file=sys.stderr)


def map_tokens(run: LoadedRun) -> int:
    """Tokens of a side that a map shows at most."""
    return min(run.config.attention.max_tokens, run.config.model.context)


def inputs(prompt: str | None, task: str) -> Iterator[str]:
    """The texts to go on with or to translate: the prompt, what is typed at a terminal, or all of standard input.

    An empty file has no line to translate; a GPT, given nothing, begins a text of its own.
    """
    if prompt is not None:
        yield prompt
    elif sys.stdin is None:
        raise UserError("prompt=… is needed, or text on standard input, which is closed")
    elif sys.stdin.isatty():
        yield from ask(task)
    elif (text := read_input()) or task == "gpt":
        yield text.removesuffix("\n")


def read_input() -> str:
    """All of standard input as UTF-8, with Windows' line ends as data files are read: CR LF counts as LF."""
    raw = sys.stdin.buffer.read()
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UserError(
            f"standard input is not UTF-8: line {line}, byte {error.start}; convert it first (iconv -t UTF-8)"
        ) from error


def ask(task: str) -> Iterator[str]:
    """Lines typed at a terminal, until end of input."""
    import readline  # noqa: F401  (gives input() line editing and history, which only a terminal wants)

    print(
        "Type the beginning of a text." if task == "gpt" else "Type a sentence to translate.",
        "Ctrl-D ends.",
        file=sys.stderr,
    )
    while True:
        try:
            yield input("> ")
        except EOFError:
            print(file=sys.stderr)
            return


def write(run: LoadedRun, config: GenerateConfig, prompt: str) -> list[Example]:
    """Go on with `prompt` and stream the text to standard output; samples are separated by a line of dashes.

    The text begins after an eos, as every document in training did. -> the tokens of every sample, prompt included.
    """
    assert isinstance(run.model, GPT)
    tokenizer = run.tokenizers[0]
    ids = tokenizer.encode(prompt)
    warn_unknown(tokenizer, prompt, ids)
    context = run.model.config.context
    if len(ids) > context:
        print(
            f"note: the prompt has {len(ids)} tokens: the first new token is chosen from the last {context} of them, "
            f"each later one from the last {context // 2 + 1} to {context} tokens of the text",
            file=sys.stderr,
        )
    examples = []
    start = [tokenizer.eos_id, *ids]
    for sample, text in enumerate(stream_samples(run.model, tokenizer, prompt, start, config)):
        tokens = start + text.tokens
        last = tokens[-map_tokens(run) :]  # the end: what was written
        if config.attention and len(last) < len(tokens):
            print(f"note: the maps show the last {len(last)} of {len(tokens)} tokens", file=sys.stderr)
        examples.append(Example.text(last, tokenizer, shortened(prompt, f"sample {sample + 1}")))
    return examples


def shortened(text: str, otherwise: str = "") -> str:
    """A text as a name in menus."""
    line = " ".join(text.split()) or otherwise
    return line if len(line) <= 40 else line[:39] + "…"


def stream_samples(
    model: GPT, tokenizer: Tokenizer, prompt: str, start: list[int], config: GenerateConfig
) -> Iterator[StreamedText]:
    """Write the samples that go on from the tokens `start`, `WRITTEN_TOGETHER` at a time -> each when it is done.

    The first of them is shown as it comes, the next as soon as it has ended, by which time most of it has been written.
    """
    for first in range(0, config.samples, WRITTEN_TOGETHER):
        texts = [StreamedText(tokenizer, config.stop) for _ in range(min(WRITTEN_TOGETHER, config.samples - first))]
        steps = generate(
            model, [start] * len(texts), config.sampling, seed=config.seed + first, stop_ids={tokenizer.eos_id},
            banned_ids=tokenizer.never_written,
        )  # fmt: skip
        for sample, shown in enumerate(texts, first):
            show("-" * 20 + "\n" + prompt if sample else prompt)
            while not shown.ended:
                for text, token in zip(texts, next(steps, [None] * len(texts)), strict=True):
                    text.feed(token)
                show(shown.take())
            print(shown.take(), flush=True)
            yield shown


def show(text: str) -> None:
    """Write to the terminal at once."""
    print(text, end="", flush=True)


def warn_unknown(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    """Name the characters that the model has never seen."""
    if tokenizer.unk_id in ids:
        unknown = sorted({character for character in text if tokenizer.unk_id in tokenizer.encode(character)})
        named = ", ".join(f"{c} ({unicodedata.name(c, f'U+{ord(c):04X}')})" for c in unknown[:5])
        print(f"note: the model has never seen {named}; it reads <unk> there", file=sys.stderr)


def translate_lines(run: LoadedRun, config: GenerateConfig, text: str) -> list[Example]:
    """Translate each line of `text`; output lines keep order and count, empty lines included -> the best pairs."""
    assert isinstance(run.model, EncoderDecoder)
    lines = text.split("\n")
    source = run.tokenizers[0]
    context = run.model.config.context
    cut = overlong(source, lines, context)
    for index in cut[:5]:
        print(f"note: line {index + 1} is longer than the model's {context} tokens and was cut there", file=sys.stderr)
    if len(cut) > 5:
        print(f"note: so were {len(cut) - 5} more lines", file=sys.stderr)
    options = TranslationOptions(config.beam_size, config.length_penalty, config.n_best, config.batch_tokens)
    translations: dict[int, list[Translation]] = {}
    with tqdm(
        total=len(lines), desc="translating", unit="line", disable=None if len(lines) > 1 else True, delay=2
    ) as bar:
        for index, found in translate(run.model, run.tokenizers, lines, options):
            translations[index] = found
            bar.update()
    for index in range(len(lines)):
        print_translation(index + 1, translations[index], config.n_best)
    show("")  # what a pipe no longer takes is noticed here, not at exit
    if not config.attention:
        return []
    return [
        translated_example(run.tokenizers, line, translations[number][0], shortened(line))
        for number, line in enumerate(lines)
        if line.strip()
    ]


def print_translation(line: int, found: list[Translation], n_best: int) -> None:
    """The best translation on a line of its own, or the n best with the line they translate, rank and score."""
    if n_best == 1:
        print(found[0].text)
        return
    for rank, translation in enumerate(found, 1):
        print(f"{line}\t{rank}\t{translation.score:.4f}\t{translation.text}")
