"""Compare beam search with Hugging Face `generate` and CTranslate2, all with the weights of one trained run.

Every contender translates the same sentences, including tokenisation and detokenisation. To train a run that the peers
can load, in minutes:

    python train.py +experiment=small_parallel_enja data.path=FOLDER name=beam \\
        model.norm=layer model.position=sinusoidal model.activation=gelu model.qk_norm=false

The length limit is about three times the source length: per sentence for ours, per batch (longest source) for Hugging
Face, and the context for CTranslate2, which has a single limit. Hypotheses of a trained model end well before the
limit. If there is a GPU, all contenders use it.

Hypotheses must not differ by more than rounding: a second table counts those that are equal to ours in float32.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from benchmarks.contender import Benchmark, Contender, Step
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import existing
from benchmarks.results import Result, markdown_table
from benchmarks.sample import decoders, decoding_comparisons, our_device

# Each function imports our code and torch itself: their memory must not be charged to the peers.
if TYPE_CHECKING:
    from data.tokens.tokenizer import Tokenizer
    from model.encoder_decoder import EncoderDecoder

Hypotheses = list[list[int]]
"""Target ids of the translation of each sentence, without bos and eos."""

REFERENCE = "ours float32"
BATCH_SIZE = 64
"""Sentences per batch of the peers, which sort by length."""


@dataclass
class BeamSettings(MeasureSettings):
    """Settings of `beam`."""

    run: str = ""
    """Run folder of a translator with norm=layer, position=sinusoidal or learned, activation=gelu and qk_norm=false."""

    sentences: str = "test.en"
    """A text file, one sentence per line."""

    beam_size: int = 5
    """Number of hypotheses kept per step."""


def beam(settings: BeamSettings) -> None:
    """Measure translation by beam search in sentences per second: ours, Hugging Face, CTranslate2."""
    run = existing("run", settings.run, "folder", "; benchmarks/beam.py shows the command to train one")
    sentences = existing("sentences", settings.sentences)
    with tempfile.TemporaryDirectory() as folder:
        work = {"run": str(run), "sentences": str(sentences), "beam_size": settings.beam_size}
        result = measure(benchmark(work, Path(folder)), settings)
        hypotheses = {path.stem: json.loads(path.read_text()) for path in Path(folder).iterdir()}
    print(f"\n{agreement(result, hypotheses)}")


def benchmark(work: dict[str, Any], folder: Path) -> Benchmark:
    """Return the benchmark; each contender writes its hypotheses to a file in `folder` named after it."""

    def contender(label: str, build: str, ours: bool = False, **arguments: Any) -> Contender:
        hypotheses = {"to": str(folder / f"{label}.json")}
        return Contender(label, f"{__name__}:{build}", work | hypotheses | arguments, ours)

    contenders = decoders(contender)
    size, name = work["beam_size"], Path(work["sentences"]).name
    title = f"Beam search, {size} hypotheses, over the sentences of {name}, text to text"
    comparisons = decoding_comparisons(f"Translating with a beam of {size}", contenders)
    return Benchmark("beam", title, "sentences", tuple(contenders), REFERENCE, comparisons)


def agreement(result: Result, hypotheses: dict[str, Hypotheses]) -> str:
    """Return a Markdown table of output speeds, mean lengths with eos, and the number of hypotheses equal to ours."""
    rows = []
    for row in result.rows:
        if row.measured:
            mine = hypotheses[row.name]
            length = mean(len(tokens) + 1 for tokens in mine)
            ours = hypotheses.get(REFERENCE, [])
            equal = sum(token == other for token, other in zip(mine, ours, strict=False))
            rows.append((row.name, f"{row.rate * length:,.0f}", f"{length:.1f}", f"{equal} of {len(mine)}"))
    return markdown_table(("contender", "output tokens/s", "tokens per hypothesis", "equal to ours float32"), rows)


def loaded(run: str, sentences: str) -> tuple[EncoderDecoder, list[Tokenizer], list[str]]:
    """Load the model in float32 on the CPU, its tokenizers, and the sentences."""
    from model.encoder_decoder import EncoderDecoder
    from run import Run
    from training.hardware.device import choose_hardware

    choose_hardware("cpu", "float32", None)
    trained = Run(Path(run))
    assert isinstance(trained.model, EncoderDecoder)
    return trained.model, trained.tokenizers, Path(sentences).read_text(encoding="utf-8").splitlines()


def keeping(translate: Callable[[], tuple[Hypotheses, list[str]]], sentences: int, to: str) -> Step:
    """Return a step that counts sentences; its first call writes the hypotheses to the file `to`."""

    def step() -> int:
        hypotheses, texts = translate()
        if len(texts) != sentences:
            raise RuntimeError(f"expected {sentences} translations, got {len(texts)}")
        if not Path(to).exists():
            Path(to).write_text(json.dumps(hypotheses), encoding="utf-8")
        return sentences

    return step


def ours(run: str, sentences: str, beam_size: int, to: str, weights: str) -> Step:
    """Return a step that translates lines of text as in `generate.py`."""
    from generation.config import TranslationConfig
    from generation.fast_decoding import prepare
    from generation.translation import best_translations

    place = our_device()
    model, tokenizers, texts = loaded(run, sentences)
    ready = prepare(model.to(place), weights)
    options = TranslationConfig(beam_size=beam_size)

    def translate() -> tuple[Hypotheses, list[str]]:
        translations = best_translations(ready, tokenizers, texts, options)
        return [best.tokens for best in translations], [best.text for best in translations]

    return keeping(translate, len(texts), to)


def hugging_face(run: str, sentences: str, beam_size: int, to: str, dtype: str) -> Step:
    """Return a step that calls `PegasusForConditionalGeneration.generate` on batches sorted by length."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from benchmarks.device import device
    from benchmarks.peers.hugging_face import pegasus
    from generation.translation_result import longest_target

    model, (tokenizer,), texts = loaded(run, sentences)
    peer, context = pegasus(model).to(device(), getattr(torch, dtype)), model.config.context
    ends = {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}

    @torch.inference_mode()
    def translate() -> tuple[Hypotheses, list[str]]:
        hypotheses: Hypotheses = [[] for _ in texts]
        sources = encoded(tokenizer, texts, context)
        order = sorted(range(len(texts)), key=lambda index: -len(sources[index]))
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            source = pad_sequence([torch.tensor(sources[row]) for row in rows], batch_first=True)  # [B, S]
            real = source != tokenizer.pad_id  # [B, S]
            written = peer.generate(
                source.to(device()),
                attention_mask=real.long().to(device()),
                num_beams=beam_size,
                early_stopping=True,
                length_penalty=1.0,
                max_new_tokens=longest_target(int(real.sum(dim=1).max()), context),
            )
            for row, tokens in zip(rows, written.tolist(), strict=True):
                hypotheses[row] = [token for token in tokens if token not in ends]
        return hypotheses, [tokenizer.decode(tokens) for tokens in hypotheses]

    return keeping(translate, len(texts), to)


def ctranslate2(run: str, sentences: str, beam_size: int, to: str, compute: str, threads: int, workers: int) -> Step:
    """Return a step that calls `Translator.translate_batch`, which sorts by length and distributes the batches."""
    import ctranslate2 as library

    from benchmarks.peers.ctranslate import options
    from interop.ctranslate.export import write_model

    chosen = options(compute, threads, workers)
    model, tokenizers, texts = loaded(run, sentences)
    context, source, target = model.config.context, tokenizers[0].spellings, tokenizers[-1].spellings
    ids = {piece: token for token, piece in enumerate(target)}
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, tokenizers, Path(folder))
        translator = library.Translator(folder, **chosen)

    def translate() -> tuple[Hypotheses, list[str]]:
        results = translator.translate_batch(  # which adds eos to each source
            [[source[token] for token in row[:-1]] for row in encoded(tokenizers[0], texts, context)],
            beam_size=beam_size,
            length_penalty=1.0,
            max_batch_size=BATCH_SIZE,
            max_decoding_length=context - 1,
        )
        hypotheses = [[ids[piece] for piece in result.hypotheses[0]] for result in results]
        return hypotheses, [tokenizers[-1].decode(tokens) for tokens in hypotheses]

    return keeping(translate, len(texts), to)


def encoded(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> list[list[int]]:
    """Encode source texts as model input: truncated to the context, with eos at the end."""
    return [[*ids[: context - 1], tokenizer.eos_id] for ids in tokenizer.encode_batch(list(texts))]
