"""Evaluation during and after training: one evaluator class per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from configs.errors import check_finite
from data.batches.batch import Batch
from data.prepare import PreparedPairs, PreparedText
from generation.config import TranslationConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig
from training.evaluation.held_out import held_out_loss
from training.evaluation.maps import AttentionRecorder
from training.evaluation.pronouns import pronoun_report
from training.evaluation.samples import write_samples
from training.evaluation.translation_baselines import baselines
from training.evaluation.translation_scores import (
    Scores,
    signatures,
    translate_rows,
    translation_table,
    write_translations,
)
from training.run_folder.log import RunLog, code_block, table
from training.run_folder.test_results import write_test


class Evaluator(ABC):
    """Base of both tasks: held-out loss, and attention maps of the same few examples at every evaluation."""

    shown: str
    """Name of the output of `show`, for messages."""
    headline: str
    """Test metric by which TensorBoard compares runs."""

    def __init__(
        self,
        config: TrainConfig,
        prepared: PreparedText | PreparedPairs,
        model: GPT | EncoderDecoder,
        run: Path,
        log: RunLog,
    ) -> None:
        self.config, self.prepared, self.model, self.run, self.log = config, prepared, model, run, log
        self.attention = AttentionRecorder(config, prepared, model, run, log)

    def evaluate(self, step: int, metrics: dict) -> float:
        """Evaluate on the validation split, show samples, record maps, add to the metrics record -> loss in nats per
        token."""
        loss = held_out_loss(self.model, self.batches("valid"), self.prepared.bytes("valid"))
        check_finite("validation loss", loss.per_token, step)
        measured: dict[str, float | None] = {
            "val/loss": loss.per_token,
            "val/perplexity": loss.perplexity,
            "val/bits_per_byte": loss.bits_per_byte,
        }
        shown = f"loss {loss.per_token:.4f} | perplexity {loss.perplexity:.2f} | {loss.bits_per_byte:.4f} bits per byte"
        scores = None
        with self.log.attempt(self.shown):
            scores = self.show(step)
        if scores:
            measured |= {"val/bleu": scores.bleu, "val/chrf": scores.chrf, "val/exact": scores.exact}
            shown += f" | char-BLEU {scores.bleu:.1f} | chrF {scores.chrf:.1f} | exact {scores.exact:.1f} %"
        self.log.line(f"validation at step {step}: {shown}")
        self.log.scalars(measured, step)
        metrics |= measured
        if self.config.attention.enabled:
            with self.log.attempt("attention maps"):
                self.attention.record(step)
        return loss.per_token

    def test_splits(self) -> list[str]:
        """Return the splits used neither for training nor for checkpoint selection."""
        return [split for split in self.prepared.splits if split not in ("train", "valid")]

    def test(self, step: int) -> None:
        """Evaluate the current model on the test splits; write all metrics to `test.json` and the Text tab, and the
        headline metrics to the HParams tab, which supports only scalars."""
        results: dict[str, dict[str, float]] = {}
        with self.log.whole_or_nothing():
            for split in self.test_splits():
                measured = self.test_split(split, step)
                with self.log.attempt("scores of heads"):
                    measured |= self.attention.test(split, step)
                results[split] = measured
            if self.config.attention.importance:
                with self.log.attempt("importance of heads"):
                    self.attention.measure_importance(step, self.batches("valid"))
            if results:
                self.log.scalars(
                    {f"{split}/{self.headline}": found[self.headline] for split, found in results.items()}, step
                )
                self.log.markdown("results", results_table(results, step), step)
        figures = {f"{split}/{key}": value for split, found in results.items() for key, value in found.items()}
        write_test(self.run, step, figures)

    @abstractmethod
    def batches(self, split: str) -> Iterable[Batch]:
        """Return the batches of the whole split, in order."""

    @abstractmethod
    def show(self, step: int) -> Scores | None:
        """Log samples or translations; return scores if there are references."""

    @abstractmethod
    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Evaluate one split, log the result and return the metrics by name."""


class TextEvaluator(Evaluator):
    """Language modelling: samples, and loss on the test splits."""

    shown, headline = "samples", "loss"

    def __init__(self, config: TrainConfig, prepared: PreparedText, model: GPT, run: Path, log: RunLog) -> None:
        super().__init__(config, prepared, model, run, log)
        self.prepared: PreparedText = prepared
        self.model: GPT = model

    def batches(self, split: str) -> Iterable[Batch]:
        """Return windows over the whole split."""
        return self.prepared.evaluation(split, self.config.trainer.batch_size)

    def show(self, step: int) -> None:
        """Write samples to TensorBoard's Text tab, and the first one to the log."""
        count = self.config.trainer.samples
        if count:
            length = min(200, 2 * self.config.model.context)
            texts = write_samples(self.model, self.prepared.tokenizer, "", count, self.config.seed, length)
            self.log.markdown("samples", "\n\n---\n\n".join(code_block(text, 100) for text in texts), step)
            self.log.line("sample: " + texts[0].strip().replace("\n", " / ")[:300])

    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Return loss, perplexity and bits per byte, plus pronoun accuracies if the split has gold labels."""
        loss = held_out_loss(self.model, self.batches(split), self.prepared.bytes(split))
        self.log.line(
            f"{split}: loss {loss.per_token:.4f} | perplexity {loss.perplexity:.2f} | {loss.bits_per_byte:.4f} bits per"
            f" byte ({loss.tokens} tokens, checkpoint of step {step})"
        )
        figures = {"loss": loss.per_token, "perplexity": loss.perplexity, "bits_per_byte": loss.bits_per_byte}
        stories = self.prepared.gold(split)
        if stories is not None:
            summary, report, accuracies = pronoun_report(self.model, self.prepared.tokenizer, stories, split)
            where = f"; table: {self.log.table(f'pronouns.{split}', report, step)}" if report else ""
            self.log.line(summary + where)
            figures |= accuracies
        return figures


class PairEvaluator(Evaluator):
    """Translation: BLEU, chrF and exact match, sample translations, and baselines for the test scores."""

    shown, headline = "translations and their scores", "chrf"

    def __init__(
        self, config: TrainConfig, prepared: PreparedPairs, model: EncoderDecoder, run: Path, log: RunLog
    ) -> None:
        super().__init__(config, prepared, model, run, log)
        self.prepared: PreparedPairs = prepared
        self.model: EncoderDecoder = model
        self.tokenizers = [prepared.source_tokenizer, prepared.target_tokenizer]
        self.valid_rows = prepared.rows("valid")[: config.trainer.evaluate_sentences]

    def batches(self, split: str) -> Iterable[Batch]:
        """Return all pairs of the split, bucketed by length."""
        return self.prepared.evaluation(split, self.config.data.batch_tokens)

    def show(self, step: int) -> Scores | None:
        """Translate the first validation sentences greedily and show the first few with their references."""
        if not self.valid_rows["source"]:
            return None
        scores, examples = translate_rows(self.model, self.tokenizers, self.valid_rows, TranslationConfig(beam_size=1))
        shown = examples[: self.config.trainer.samples]
        self.log.markdown("samples", f"{translation_table(shown)}\n\n{signatures()}", step)
        for example in shown:
            self.log.line(f"  {example.source} → {example.hypothesis}  (reference: {example.reference})")
        return scores

    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Log scores and baselines as a table; write all translations to `translations.<split>.tsv`."""
        trainer = self.config.trainer
        options = TranslationConfig(trainer.beam_size, trainer.length_penalty)
        rows = self.prepared.rows(split)[:]
        scores, examples = translate_rows(self.model, self.tokenizers, rows, options)
        compared = {f"this model (beam {trainer.beam_size})": scores} | baselines(
            self.prepared, rows["source"], rows["target"]
        )
        lines = [[name, f"{s.bleu:.1f}", f"{s.chrf:.1f}", f"{s.exact:.1f} %"] for name, s in compared.items()]
        report = table([f"{split}: {len(examples)} sentences", "char-BLEU", "chrF", "exact"], lines)
        self.log.line(f"\n{report}\n")
        self.log.detail(signatures())
        self.log.markdown(f"tables/scores.{split}", f"{report}\n\n{signatures()}", step)
        self.log.markdown(f"tables/translations.{split}", translation_table(examples[:20]), step)
        write_translations(self.run / f"translations.{split}.tsv", examples)
        return {"bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}


def results_table(results: dict[str, dict[str, float]], step: int) -> str:
    """Format the metrics of all test splits as Markdown: a row per metric, a column per split."""
    names = dict.fromkeys(name for found in results.values() for name in found)
    lines = [[name, *(f"{found[name]:.4f}" if name in found else "" for found in results.values())] for name in names]
    return table([f"checkpoint of step {step}", *results], lines)


def evaluator_for(
    config: TrainConfig, prepared: PreparedText | PreparedPairs, model: GPT | EncoderDecoder, run: Path, log: RunLog
) -> Evaluator:
    """Return the evaluator for the config's task."""
    if isinstance(prepared, PreparedText):
        assert isinstance(model, GPT)
        return TextEvaluator(config, prepared, model, run, log)
    assert isinstance(model, EncoderDecoder)
    return PairEvaluator(config, prepared, model, run, log)
