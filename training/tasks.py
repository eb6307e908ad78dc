"""What is measured, shown and recorded at an evaluation: one class per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import torch

import attention_maps.store
from attention_maps.measures import scalars
from attention_maps.pictures import picture
from attention_maps.record import Example, record
from data.batches import Batch
from data.prepare import PreparedPairs, PreparedText
from data.tokenizer import Tokenizer
from model.attention import attention_backend
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig
from training.evaluation import TranslationExample, baselines, held_out_loss, translate_rows, write_samples
from training.hardware import Hardware
from training.metrics import Scores, signatures
from training.run_log import RunLog, code_block, table
from training.translation import TranslationOptions, translate_all


class Evaluator(ABC):
    """What both tasks share: the held-out loss, and the attention maps of the same few examples every time."""

    def __init__(
        self, config: TrainConfig, prepared: PreparedText | PreparedPairs, model: GPT | EncoderDecoder, run: Path, log: RunLog
    ) -> None:  # fmt: skip
        self.config, self.prepared, self.model, self.run, self.log = config, prepared, model, run, log

    def evaluate(self, step: int, metrics: dict) -> float:
        """Measure the validation split, show samples, record maps; adds to the metrics record -> loss in nats per token."""
        loss = held_out_loss(self.model, self.batches("valid"), self.bytes("valid"))
        measured: dict[str, float | None] = {
            "val/loss": loss.per_token,
            "val/perplexity": loss.perplexity,
            "val/bits_per_byte": loss.bits_per_byte,
        }
        shown = f"loss {loss.per_token:.4f} | perplexity {loss.perplexity:.2f} | {loss.bits_per_byte:.4f} bits per byte"
        scores = self.show(step)
        if scores:
            measured |= {"val/bleu": scores.bleu, "val/chrf": scores.chrf, "val/exact": scores.exact}
            shown += f" | char-BLEU {scores.bleu:.1f} | chrF {scores.chrf:.1f} | exact {scores.exact:.1f} %"
        self.log.line(f"validation at step {step}: {shown}")
        self.log.scalars(measured, step)
        metrics |= measured
        if self.config.attention.enabled:
            self.record_attention(step)
        return loss.per_token

    def record_attention(self, step: int) -> None:
        """Store the maps of the probe examples, their measures as curves, and one picture."""
        labels = self.labelling_tokenizer()
        recording = record(
            self.model,
            self.examples(),
            labels.special_ids,
            step,
            pieces=labels.pieces,
            max_tokens=self.config.attention.max_tokens,
        )
        attention_maps.store.save(recording, self.run)
        self.log.scalars(dict(scalars(recording)), step)
        if self.config.attention.image and recording.samples:
            self.log.image("attention", picture(recording), step)

    def forget_after(self, step: int) -> None:
        """Resuming: drop the maps of steps that are about to be taken again."""
        attention_maps.store.remove_after(self.run, step)

    def attention_backend(self, hardware: Hardware) -> str:
        """Which attention kernel training will really run."""
        shape = self.config.model
        length, width = shape.context, shape.width // shape.heads
        query, key = (
            torch.empty(1, heads, length, width, dtype=hardware.dtype, device=hardware.device, requires_grad=True)
            for heads in (shape.heads, shape.kv_heads or shape.heads)
        )
        return attention_backend(query, key, key, causal=True, dropout=shape.attention_dropout)

    def test_splits(self) -> list[str]:
        """Splits that training never looked at, not even to choose a checkpoint."""
        return [split for split in self.prepared.splits if split not in ("train", "valid")]

    def report(self, step: int, split: str, measured: dict[str, float]) -> None:
        """Test results go to metrics.jsonl and the curves as `<split>/…`."""
        named = {f"{split}/{key}": value for key, value in measured.items()}
        self.log.scalars(dict(named), step)
        self.log.metrics({"step": step, **named})

    @abstractmethod
    def batches(self, split: str) -> Iterable[Batch]:
        """The whole split, in order."""

    @abstractmethod
    def bytes(self, split: str) -> int:
        """Length in UTF-8 of what the model has to predict, which no tokenizer changes."""

    @abstractmethod
    def show(self, step: int) -> Scores | None:
        """Samples or translations to read; scores where there are references."""

    @abstractmethod
    def examples(self) -> list[Example]:
        """The probes and the first validation examples, whose attention is recorded."""

    @abstractmethod
    def labelling_tokenizer(self) -> Tokenizer:
        """The tokenizer of the side that the model writes."""

    @abstractmethod
    def test(self, step: int) -> None:
        """Measure the test splits with the model as it is."""


class TextEvaluator(Evaluator):
    """Language modelling: samples to read, loss on the test splits."""

    def __init__(self, config: TrainConfig, prepared: PreparedText, model: GPT, run: Path, log: RunLog) -> None:
        super().__init__(config, prepared, model, run, log)
        self.prepared: PreparedText = prepared
        self.model: GPT = model

    def batches(self, split: str) -> Iterable[Batch]:
        """Windows over the whole split."""
        return self.prepared.evaluation(split, self.config.trainer.batch_size, self.config.model.context)

    def bytes(self, split: str) -> int:
        """The whole text."""
        return self.prepared.bytes(split)

    def show(self, step: int) -> None:
        """Write samples into TensorBoard's Text tab, the first one into the log too."""
        count = self.config.trainer.samples
        if count:
            length = min(200, 2 * self.config.model.context)
            texts = write_samples(self.model, self.prepared.tokenizer, "", count, self.config.seed, length)
            self.log.markdown("samples", "\n\n---\n\n".join(map(code_block, texts)), step)
            self.log.line("sample: " + texts[0].strip().replace("\n", " / ")[:300])

    def examples(self) -> list[Example]:
        """Texts, each read from its beginning."""
        tokenizer, attention = self.prepared.tokenizer, self.config.attention
        named = {f"probe {n}": text for n, text in enumerate(attention.probes, 1)}
        named |= {f"valid {n}": text for n, text in enumerate(self.prepared.texts("valid", attention.examples), 1)}
        return [
            Example.text([tokenizer.eos_id, *tokenizer.encode(text)], tokenizer, name) for name, text in named.items()
        ]

    def labelling_tokenizer(self) -> Tokenizer:
        """The only one."""
        return self.prepared.tokenizer

    def test(self, step: int) -> None:
        """Loss, perplexity and bits per byte of every test split."""
        for split in self.test_splits():
            loss = held_out_loss(self.model, self.batches(split), self.bytes(split))
            self.log.line(
                f"{split}: loss {loss.per_token:.4f} | perplexity {loss.perplexity:.2f} | {loss.bits_per_byte:.4f} bits per byte "
                f"({loss.tokens} tokens, checkpoint of step {step})"
            )
            self.report(
                step,
                split,
                {"loss": loss.per_token, "perplexity": loss.perplexity, "bits_per_byte": loss.bits_per_byte},
            )


class PairEvaluator(Evaluator):
    """Translation: BLEU, chrF and exact match, a table to read, baselines beside the test scores."""

    def __init__(
        self, config: TrainConfig, prepared: PreparedPairs, model: EncoderDecoder, run: Path, log: RunLog
    ) -> None:
        super().__init__(config, prepared, model, run, log)
        self.prepared: PreparedPairs = prepared
        self.model: EncoderDecoder = model
        self.tokenizers = [prepared.source_tokenizer, prepared.target_tokenizer]
        self.valid_rows = prepared.rows("valid")[: config.trainer.evaluate_sentences]

    def examples(self) -> list[Example]:
        """Pairs; a probe that is given without its translation is shown with the one that the model makes now."""
        attention = self.config.attention
        named = {f"probe {n}": probe.partition(" ||| ")[::2] for n, probe in enumerate(attention.probes, 1)}
        alone = {name: source for name, (source, target) in named.items() if not target}
        made = translate_all(self.model, self.tokenizers, list(alone.values()), TranslationOptions(beam_size=1))
        named |= {name: (alone[name], target) for name, target in zip(alone, made, strict=True)}
        shown = self.prepared.rows("valid")[: attention.examples]
        named |= {f"valid {n}": pair for n, pair in enumerate(zip(shown["source"], shown["target"], strict=True), 1)}
        source, target = self.tokenizers
        return [
            Example.pair(source.encode(s), target.encode(t), source, target, name) for name, (s, t) in named.items()
        ]

    def batches(self, split: str) -> Iterable[Batch]:
        """All pairs of the split, bucketed by length."""
        return self.prepared.evaluation(split, self.config.data.batch_tokens)

    def bytes(self, split: str) -> int:
        """The targets and their line ends."""
        return sum(len(target.encode()) + 1 for target in self.prepared.rows(split)["target"][:])

    def show(self, step: int) -> Scores | None:
        """Translate the first validation sentences greedily; the first few are shown beside their references."""
        if not self.valid_rows["source"]:
            return None
        scores, examples = translate_rows(self.model, self.tokenizers, self.valid_rows, TranslationOptions(beam_size=1))
        shown = examples[: self.config.trainer.samples]
        self.log.markdown("translations", translation_table(shown), step)
        for example in shown:
            self.log.line(f"  {example.source} → {example.hypothesis}  (reference: {example.reference})")
        return scores

    def labelling_tokenizer(self) -> Tokenizer:
        """The target's."""
        return self.prepared.target_tokenizer

    def test(self, step: int) -> None:
        """Scores of every test split beside the baselines, as a table; all translations go to `translations.<split>.tsv`."""
        trainer = self.config.trainer
        options = TranslationOptions(trainer.beam_size, trainer.length_penalty)
        for split in self.test_splits():
            rows = self.prepared.rows(split)[:]
            scores, examples = translate_rows(self.model, self.tokenizers, rows, options)
            compared = {f"this model (beam {trainer.beam_size})": scores} | baselines(
                self.prepared, rows["source"], rows["target"]
            )
            lines = [[name, f"{s.bleu:.1f}", f"{s.chrf:.1f}", f"{s.exact:.1f} %"] for name, s in compared.items()]
            heading = f"{split}: {len(examples)} sentences"
            report = table([heading, "char-BLEU", "chrF", "exact"], lines)
            self.log.line(f"\n{report}\n{signatures()}\n")
            self.log.markdown(f"{split} scores", f"{report}\n\n{signatures()}", step)
            self.log.markdown(f"{split} translations", translation_table(examples[:20]), step)
            self.report(step, split, {"bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact})
            write_translations(self.run / f"translations.{split}.tsv", examples)


def translation_table(examples: list[TranslationExample]) -> str:
    """Source, reference and hypothesis beside each other, as Markdown."""
    return table(["source", "reference", "hypothesis"], [[e.source, e.reference, e.hypothesis] for e in examples])


def write_translations(path: Path, examples: list[TranslationExample]) -> None:
    """Every translation of a split as a TSV with a header: source, reference, hypothesis."""
    rows = ["source\treference\thypothesis", *(f"{e.source}\t{e.reference}\t{e.hypothesis}" for e in examples)]
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def evaluator_for(
    config: TrainConfig, prepared: PreparedText | PreparedPairs, model: GPT | EncoderDecoder, run: Path, log: RunLog
) -> Evaluator:  # fmt: skip
    """The evaluator of the config's task."""
    if isinstance(prepared, PreparedText):
        assert isinstance(model, GPT)
        return TextEvaluator(config, prepared, model, run, log)
    assert isinstance(model, EncoderDecoder)
    return PairEvaluator(config, prepared, model, run, log)
