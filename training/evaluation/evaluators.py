"""What is measured, shown and recorded at an evaluation: one class per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from configs.errors import check_finite
from configs.whole_file import write_whole
from data.batches.batch import Batch
from data.coreference import HEURISTICS, pronouns, turns
from data.prepare import PreparedPairs, PreparedText
from data.sources.sources import load_rows
from generation.config import TranslationConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig
from training.evaluation.held_out import TranslationExample, baselines, held_out_loss, translate_rows, write_samples
from training.evaluation.maps import AttentionRecorder
from training.evaluation.pronouns import Choice, choice, score_pronouns
from training.evaluation.translation_scores import Scores, signatures
from training.run_folder.layout import write_test
from training.run_folder.log import RunLog, code_block, table


class Evaluator(ABC):
    """What both tasks share: the held-out loss, and the attention maps of the same few examples every time."""

    shown: str
    """What `show` shows."""

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
        """Measure the validation split, show samples, record maps; adds to the metrics record -> loss in nats per
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
        """Splits that training never looked at, not even to choose a checkpoint."""
        return [split for split in self.prepared.splits if split not in ("train", "valid")]

    def test(self, step: int) -> None:
        """Measure the test splits with the model as it is; the figures go to `test.json` and the curves as
        `<split>/…`."""
        figures: dict[str, float] = {}
        with self.log.whole_or_nothing():
            for split in self.test_splits():
                measured = self.test_split(split, step)
                with self.log.attempt("scores of heads"):
                    measured |= self.attention.test(split, step)
                figures |= {f"{split}/{key}": value for key, value in measured.items()}
            if self.config.attention.importance:
                with self.log.attempt("importance of heads"):
                    self.attention.measure_importance(step, self.batches("valid"))
            self.log.scalars(dict(figures), step)
        write_test(self.run, step, figures)

    @abstractmethod
    def batches(self, split: str) -> Iterable[Batch]:
        """The whole split, in order."""

    @abstractmethod
    def show(self, step: int) -> Scores | None:
        """Samples or translations to read; scores where there are references."""

    @abstractmethod
    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Measure one split, say what came out, and return the figures by name."""


class TextEvaluator(Evaluator):
    """Language modelling: samples to read, loss on the test splits."""

    shown = "samples"

    def __init__(self, config: TrainConfig, prepared: PreparedText, model: GPT, run: Path, log: RunLog) -> None:
        super().__init__(config, prepared, model, run, log)
        self.prepared: PreparedText = prepared
        self.model: GPT = model

    def batches(self, split: str) -> Iterable[Batch]:
        """Windows over the whole split."""
        return self.prepared.evaluation(split, self.config.trainer.batch_size)

    def show(self, step: int) -> None:
        """Write samples into TensorBoard's Text tab, the first one into the log too."""
        count = self.config.trainer.samples
        if count:
            length = min(200, 2 * self.config.model.context)
            texts = write_samples(self.model, self.prepared.tokenizer, "", count, self.config.seed, length)
            self.log.markdown("samples", "\n\n---\n\n".join(code_block(text, 100) for text in texts), step)
            self.log.line("sample: " + texts[0].strip().replace("\n", " / ")[:300])

    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Loss, perplexity and bits per byte."""
        loss = held_out_loss(self.model, self.batches(split), self.prepared.bytes(split))
        self.log.line(
            f"{split}: loss {loss.per_token:.4f} | perplexity {loss.perplexity:.2f} | {loss.bits_per_byte:.4f} bits per"
            f" byte ({loss.tokens} tokens, checkpoint of step {step})"
        )
        figures = {"loss": loss.per_token, "perplexity": loss.perplexity, "bits_per_byte": loss.bits_per_byte}
        if self.config.data.source == "primer":
            figures |= self.understanding(split, step)
        return figures

    def understanding(self, split: str, step: int) -> dict[str, float]:
        """The embedded stories know whom a pronoun means: how often the model does, beside guesses that understand
        nothing."""
        asked: dict[str, tuple[str, list[Choice]]] = {
            "pronouns": ("only meaning decides", []),
            "pronouns_contested": ("more than one noun agrees", []),
        }
        for story in load_rows(self.config.data, "gpt")[split]:
            text = story["text"]
            asked["pronouns"][1].extend(choice(story, turn) for turn in turns(story, text))
            asked["pronouns_contested"][1].extend(choice(story, p) for p in pronouns(story, text) if p.contested)
        scores = {key: score_pronouns(self.model, self.prepared.tokenizer, found) for key, (_, found) in asked.items()}
        told = {key: score for key, score in scores.items() if score is not None}
        if not told:
            self.log.line(f"{split}: no pronoun scored, no story fits model.context={self.config.model.context}")
            return {}
        columns = list(told.values())
        lines = {"this model": [score.model for score in columns]}
        lines |= {guess: [score.guesses[guess] for score in columns] for guess in HEURISTICS}
        lines["any candidate"] = [score.chance for score in columns]
        report = table(
            [f"{split}: pronouns understood", *(f"{asked[key][0]} ({score.count})" for key, score in told.items())],
            [[name, *(f"{percent:.1f} %" for percent in line)] for name, line in lines.items()],
        )
        left_out = sum(score.left_out for score in columns)
        if left_out:
            report += f"\n\n{left_out} more are in stories longer than model.context={self.config.model.context}."
        self.log.line(f"\n{report}\n")
        self.log.markdown(f"{split} pronouns", report, step)
        return {key: score.model for key, score in told.items()}


class PairEvaluator(Evaluator):
    """Translation: BLEU, chrF and exact match, a table to read, baselines beside the test scores."""

    shown = "translations and their scores"

    def __init__(
        self, config: TrainConfig, prepared: PreparedPairs, model: EncoderDecoder, run: Path, log: RunLog
    ) -> None:
        super().__init__(config, prepared, model, run, log)
        self.prepared: PreparedPairs = prepared
        self.model: EncoderDecoder = model
        self.tokenizers = [prepared.source_tokenizer, prepared.target_tokenizer]
        self.valid_rows = prepared.rows("valid")[: config.trainer.evaluate_sentences]

    def batches(self, split: str) -> Iterable[Batch]:
        """All pairs of the split, bucketed by length."""
        return self.prepared.evaluation(split, self.config.data.batch_tokens)

    def show(self, step: int) -> Scores | None:
        """Translate the first validation sentences greedily; the first few are shown beside their references."""
        if not self.valid_rows["source"]:
            return None
        scores, examples = translate_rows(self.model, self.tokenizers, self.valid_rows, TranslationConfig(beam_size=1))
        shown = examples[: self.config.trainer.samples]
        self.log.markdown("translations", f"{translation_table(shown)}\n\n{signatures()}", step)
        for example in shown:
            self.log.line(f"  {example.source} → {example.hypothesis}  (reference: {example.reference})")
        return scores

    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Scores beside the baselines, as a table; all translations go to `translations.<split>.tsv`."""
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
        self.log.markdown(f"{split} scores", f"{report}\n\n{signatures()}", step)
        self.log.markdown(f"{split} translations", translation_table(examples[:20]), step)
        write_translations(self.run / f"translations.{split}.tsv", examples)
        return {"bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}


def translation_table(examples: list[TranslationExample]) -> str:
    """Source, reference and hypothesis beside each other, as Markdown."""
    return table(["source", "reference", "hypothesis"], [[e.source, e.reference, e.hypothesis] for e in examples])


def write_translations(path: Path, examples: list[TranslationExample]) -> None:
    """Every translation of a split as a TSV with a header: source, reference, hypothesis."""
    rows = ["source\treference\thypothesis", *(f"{e.source}\t{e.reference}\t{e.hypothesis}" for e in examples)]
    write_whole(path, "".join(row + "\n" for row in rows).encode())


def evaluator_for(
    config: TrainConfig, prepared: PreparedText | PreparedPairs, model: GPT | EncoderDecoder, run: Path, log: RunLog
) -> Evaluator:
    """The evaluator of the config's task."""
    if isinstance(prepared, PreparedText):
        assert isinstance(model, GPT)
        return TextEvaluator(config, prepared, model, run, log)
    assert isinstance(model, EncoderDecoder)
    return PairEvaluator(config, prepared, model, run, log)
