"""Compare beam search with Hugging Face `generate` and CTranslate2, all with the weights of one trained run.

Every contender translates the same sentences, including tokenisation and detokenisation. To train a run that the peers
can load, in minutes:

    python train.py +experiment=small_parallel_enja data.path=FOLDER name=beam \\
        model.norm=layer model.position=sinusoidal model.activation=gelu model.qk_norm=false

The length limit is about three times the source length: per sentence for ours, per batch (longest source) for Hugging
Face, and the context for CTranslate2, which has a single limit. Hypotheses of a trained model end well before the
limit. If there is a GPU, all contenders use it.

A second table counts the hypotheses that are equal to ours, and to those of a simple reference search.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from benchmarks.contender import Benchmark, Contender, Skipped, Step
from benchmarks.decoding.sample import ctranslate2_rows, decoding_comparisons, our_device, ours_and_hugging_face
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import existing
from benchmarks.report import markdown_table
from benchmarks.results import Result
from configs.program import expanded

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

    check: bool = True
    """Also compare with the slow reference search in float64: one or two minutes for 500 sentences."""


def beam(settings: BeamSettings) -> None:
    """Measure translation by beam search in sentences per second: ours, Hugging Face, CTranslate2."""
    run = existing("run", settings.run, "folder", "; benchmarks/decoding/beam.py shows the command to train one")
    sentences = existing("sentences", settings.sentences)
    with tempfile.TemporaryDirectory() as folder:
        work = {"run": str(run), "sentences": str(sentences), "beam_size": settings.beam_size}
        result = measure(benchmark(work, Path(folder)), settings)
        found = {path.stem: json.loads(path.read_text()) for path in Path(folder).iterdir()}
    slow = reference(str(run), str(sentences), settings.beam_size) if settings.check else None
    table = agreement(result, found, slow)
    print(f"\n{table}")
    (expanded(settings.to) / "beam_hypotheses.md").write_text(table + "\n", encoding="utf-8")


def benchmark(work: dict[str, Any], folder: Path) -> Benchmark:
    """Return the benchmark; each contender writes its hypotheses to a file in `folder` named after it."""

    def contender(label: str, build: str, ours: bool = False, **arguments: Any) -> Contender:
        hypotheses = {"to": str(folder / f"{label}.json")}
        return Contender(label, f"{__name__}:{build}", work | hypotheses | arguments, ours)

    contenders = [*ours_and_hugging_face(contender), *ctranslate2_rows(contender)]
    size, name = work["beam_size"], Path(work["sentences"]).name
    title = f"Beam search, {size} hypotheses, over the sentences of {name}, text to text"
    comparisons = decoding_comparisons(f"Translating with a beam of {size}", contenders)
    return Benchmark("beam", title, "sentences", tuple(contenders), REFERENCE, comparisons)


def agreement(result: Result, found: dict[str, Hypotheses], slow: Hypotheses | None) -> str:
    """Return a Markdown table of output speeds, hypothesis lengths, and agreement with other searches."""
    rows = []
    for row in result.rows:
        if row.measured:
            mine = found[row.name]
            length = mean(len(tokens) + 1 for tokens in mine)  # includes eos
            equal = (same(mine, found.get(REFERENCE)), same(mine, slow))
            rows.append((row.name, f"{row.rate * length:,.0f}", f"{length:.1f}", *equal))
    equals = ("equal to ours float32", "equal to reference search")
    return markdown_table(("contender", "output tokens/s", "tokens per hypothesis", *equals), rows)


def same(mine: Hypotheses, others: Hypotheses | None) -> str:
    """Return the number of equal hypotheses, as "3 of 4", or "–" without a comparison."""
    if others is None:
        return "–"
    return f"{sum(one == other for one, other in zip(mine, others, strict=True))} of {len(mine)}"


def loaded(run: str, sentences: str) -> tuple[EncoderDecoder, list[Tokenizer], list[str]]:
    """Load the model in float32 on the CPU, its tokenizers, and the sentences."""
    from model.encoder_decoder import EncoderDecoder
    from run import Run
    from training.hardware.device import choose_hardware

    choose_hardware("cpu", "float32", None)
    found = Run(Path(run))
    assert isinstance(found.model, EncoderDecoder)
    return found.model, found.tokenizers, Path(sentences).read_text(encoding="utf-8").splitlines()


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
    from generation.translation import best_translations
    from model.fast.decoding import prepare

    place = our_device()
    model, tokenizers, texts = loaded(run, sentences)
    ready = prepare(model.to(place), weights)
    options = TranslationConfig(beam_size=beam_size)

    def translate() -> tuple[Hypotheses, list[str]]:
        found = best_translations(ready, tokenizers, texts, options)
        return [one.tokens for one in found], [one.text for one in found]

    return keeping(translate, len(texts), to)


def ours_with_ctranslate2(run: str, sentences: str, beam_size: int, to: str, weights: str) -> Step:
    """Return a step that translates lines with the engine of `generate.py` that uses CTranslate2."""
    from benchmarks.device import device
    from generation.config import GenerateConfig
    from generation.engines.ctranslate_engine import CTranslate2Engine
    from interop.ctranslate.export import write_model

    if device().type != "cpu":
        raise Skipped("generate.py uses CTranslate2 on a CPU only")
    model, tokenizers, texts = loaded(run, sentences)
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, tokenizers, Path(folder))
        config = GenerateConfig(beam_size=beam_size, quantize=weights)
        engine = CTranslate2Engine(Path(folder), tokenizers, model.config.context, config)
        dict(engine.translate([texts[:1]]))  # loads the model

    def translate() -> tuple[Hypotheses, list[str]]:
        found = dict(engine.translate([texts]))
        best = [found[index][0] for index in range(len(texts))]
        return [one.tokens for one in best], [one.text for one in best]

    return keeping(translate, len(texts), to)


def hugging_face(run: str, sentences: str, beam_size: int, to: str, dtype: str) -> Step:
    """Return a step that calls `PegasusForConditionalGeneration.generate` on batches sorted by length."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from benchmarks.device import device
    from benchmarks.peers.hugging_face import pegasus
    from generation.translated import longest_target

    model, (tokenizer,), texts = loaded(run, sentences)
    peer, context = pegasus(model).to(device(), getattr(torch, dtype)), model.config.context
    ends = {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}

    @torch.inference_mode()
    def translate() -> tuple[Hypotheses, list[str]]:
        found: Hypotheses = [[] for _ in texts]
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
                found[row] = [token for token in tokens if token not in ends]
        return found, [tokenizer.decode(tokens) for tokens in found]

    return keeping(translate, len(texts), to)


def ctranslate2(run: str, sentences: str, beam_size: int, to: str, compute: str, threads: int, workers: int) -> Step:
    """Return a step that calls `Translator.translate_batch`, which sorts by length and distributes the batches."""
    import ctranslate2 as library

    from benchmarks.peers.ctranslate_two import options
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
        found = [[ids[piece] for piece in result.hypotheses[0]] for result in results]
        return found, [tokenizers[-1].decode(tokens) for tokens in found]

    return keeping(translate, len(texts), to)


def encoded(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> list[list[int]]:
    """Encode source texts as model input: truncated to the context, with eos at the end."""
    return [[*ids[: context - 1], tokenizer.eos_id] for ids in tokenizer.encode_batch(list(texts))]


def reference(run: str, sentences: str, beam_size: int) -> Hypotheses:
    """Return the hypotheses of the slow reference search in float64."""
    import torch

    from benchmarks.peers.reference_beam import reference_beam
    from generation.translated import longest_target

    model, tokenizers, texts = loaded(run, sentences)
    model.double()
    target, context = tokenizers[-1], model.config.context
    slowly = tqdm(encoded(tokenizers[0], texts, context), desc="reference search", unit="sentence", disable=None)
    return [
        reference_beam(
            model,
            torch.tensor([source]),
            bos_id=target.bos_id,
            eos_id=target.eos_id,
            max_length=longest_target(len(source), context),
            beam_size=beam_size,
            banned_ids=target.never_written,
        )
        for source in slowly
    ]
