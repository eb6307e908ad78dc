"""Evaluation during and after training: one evaluator class per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import torch

from configs.atomic_file import write_whole
from configs.errors import check_finite
from data.batches.batch import Batch
from data.tokens.tokenizer import Tokenizer
from data.training_data import Prepared, PreparedPairs, PreparedText
from generation.config import SamplingConfig, TranslationConfig
from generation.engines.torch_engine import sampler
from generation.fast_decoding import prepare
from generation.translation_result import cell, one_line
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.size import count_parameters
from training.checkpoints.files import load_weights
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import checkpoint_step
from training.config import TrainConfig
from training.evaluation.held_out_loss import HeldOutLoss, held_out_loss
from training.evaluation.maps import AttentionRecorder
from training.evaluation.story_answers import score_answers
from training.evaluation.story_scores import story_scores
from training.evaluation.translation_scores import COLUMNS, baselines, signatures, translate_rows
from training.hardware.bfloat16 import decoding_format
from training.hardware.compilation import eagerly
from training.hardware.gpu_attention import evaluation_kernels
from training.processes.single_process import SINGLE, Processes
from training.run_folder.loaded_run import Model, load_into
from training.run_folder.log import RunLog, code_block, table
from training.run_folder.test_results import tested_step, write_test

SHOWN = 20
"""Number of test translations in TensorBoard's Text tab; all are in a file."""

LONGEST = 300
"""Maximum number of characters of a sample in the log."""
SCORES = {
    "bleu": "char-BLEU {:.1f}",
    "chrf": "chrF {:.1f}",
    "exact": "exact {:.1f} %",
    "answers": "right answers {:.1f} %",
}
"""Scores in the log line of an evaluation."""
ANSWERED = 200
"""Number of validation stories whose questions are asked at each evaluation."""


class Evaluator(ABC):
    """Base of both tasks: held-out loss, and attention maps of the same few examples."""

    described: str
    """Name of the output of `show`, for messages."""
    headline: str
    """Test metric by which TensorBoard compares runs."""

    def __init__(
        self,
        config: TrainConfig,
        prepared: Prepared,
        model: Model,
        run: Path,
        log: RunLog,
        processes: Processes = SINGLE,
    ) -> None:
        """processes: those that divide losses and translations among themselves; the first one does the rest."""
        self.config, self.prepared, self.model, self.run, self.log = config, prepared, model, run, log
        self.processes = processes
        self.attention = AttentionRecorder(config, prepared, model, run, log)
        if processes.is_main and config.attention.enabled:
            self.attention.prepare()

    def evaluate(self, step: int, metrics: dict) -> float:
        """Evaluate on the validation split, show samples and record maps; add the metrics to `metrics` and return the
        loss in nats per token."""
        loss = self.loss("valid")
        check_finite("validation loss", loss.per_token, step)
        measured: dict[str, float | None] = {f"val/{name}": value for name, value in loss.metrics().items()}
        summary = str(loss)
        scores: dict[str, float] = {}
        with self.log.attempt(self.described):
            scores = self.show(step)
        measured |= {f"val/{name}": value for name, value in scores.items()}
        summary += "".join(" | " + form.format(scores[name]) for name, form in SCORES.items() if name in scores)
        self.log.line(f"validation at step {step}: {summary}")
        self.log.scalars(measured, step)
        metrics |= measured
        if self.config.attention.enabled and self.processes.is_main:
            with self.log.attempt("attention maps"):
                self.attention.record(step)
        return loss.per_token

    def record_attention(self, step: int) -> None:
        """Record attention maps between two evaluations."""
        if self.processes.is_main:
            with self.log.attempt("attention maps"):
                self.attention.record_maps(step)

    def loss(self, split: str) -> HeldOutLoss:
        """Compute the loss on a split."""
        batches = self.batches(split, self.processes.rank, self.processes.world)
        sizes = self.prepared.bytes(split), self.prepared.lost(split)
        return held_out_loss(self.model, batches, *sizes, self.processes)

    def final_test(self, device: torch.device, compiled: bool) -> None:
        """Load the best checkpoint into the model and test it, unless `test.json` already covers it; a resume repeats
        an interrupted test. compiled: whether training compiled the model."""
        with eagerly(compiled), evaluation_kernels(device):
            self.model.float().eval()
            if self.processes.world > 1:
                for parameter in self.model.parameters():  # which may be divided among the processes
                    parameter.data = torch.empty(parameter.shape, device=device)
            step = self.processes.broadcast(self.load_best)
            if step is not None:
                for parameter in self.model.parameters():
                    self.processes.broadcast_tensor(parameter.data)
                self.test(step)

    def load_best(self) -> int | None:
        """Load the best checkpoint into the model and return its step; None if it is already tested in this way."""
        best = checkpoint_path(self.run, "best")
        step = checkpoint_step(best)
        if tested_step(self.run, self.test_settings) == step:
            return None
        load_into(self.model.float(), load_weights(best), best)
        return step

    def test(self, step: int) -> None:
        """Evaluate the current model on the test splits; write all metrics to `test.json` and the Text tab, and the
        headline metrics to the HParams tab, which supports only scalars."""
        results: dict[str, dict[str, float]] = {}
        with self.log.whole_or_nothing():
            for split in self.prepared.splits:
                if split not in ("train", "valid"):  # used for training and for checkpoint selection
                    measured = self.test_split(split, step)
                    if self.processes.is_main:
                        with self.log.attempt("scores of heads"):
                            measured |= self.attention.test(split, step)
                    results[split] = measured
            if not self.processes.is_main:
                return
            if self.config.attention.importance:
                with self.log.attempt("importance of heads"):
                    self.attention.measure_importance(step, self.batches("valid"))
            if results:
                # `test/chrf`, `test/novel_chrf`: TensorBoard shows the curves of training first.
                prefixes = {split: "test/" if split == "test" else f"test/{split}_" for split in results}
                headlines = {
                    prefixes[split] + self.headline: scores[self.headline] for split, scores in results.items()
                }
                self.log.scalars(headlines, step)
                names = dict.fromkeys(name for scores in results.values() for name in scores)
                columns = results.values()
                rows = [
                    [name, *(f"{scores[name]:.4f}" if name in scores else "" for scores in columns)] for name in names
                ]
                self.log.markdown("results", table([f"checkpoint of step {step}", *results], rows), step)
        figures = {f"{split}/{key}": value for split, scores in results.items() for key, value in scores.items()}
        write_test(self.run, step, self.test_settings, figures)

    @property
    def test_settings(self) -> dict[str, float]:
        """Settings on which a test depends besides the weights, and which a resume may change."""
        attention = self.config.attention
        return {"heads": attention.enabled and attention.scored > 0, "importance": attention.importance}

    @abstractmethod
    def batches(self, split: str, rank: int = 0, world: int = 1) -> Iterable[Batch]:
        """Return the batches of the whole split, in order; of several processes, each gets every `world`-th batch."""

    @abstractmethod
    def show(self, step: int) -> dict[str, float]:
        """Log samples or translations; return their scores, if there are gold labels or references."""

    @abstractmethod
    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Evaluate one split, log the result and return the metrics by name."""


class TextEvaluator(Evaluator):
    """Language modelling: samples, and loss on the test splits."""

    described, headline = "samples", "loss"

    prepared: PreparedText
    model: GPT

    def batches(self, split: str, rank: int = 0, world: int = 1) -> Iterable[Batch]:
        """Return windows over the whole split, as in Evaluator."""
        return self.prepared.evaluation(split, self.config.trainer.batch_size, rank=rank, world=world)

    def show(self, step: int) -> dict[str, float]:
        """Write samples to TensorBoard's Text tab, and the first one to the log; answer questions about stories."""
        count = self.config.trainer.samples
        if count and self.processes.is_main:
            length = min(200, 2 * self.config.model.context)
            texts = sample_documents(self.model, self.prepared.tokenizer, count, self.config.seed, length)
            self.log.markdown("samples", "\n\n---\n\n".join(code_block(text, 100) for text in texts), step)
            first = texts[0].strip().replace("\n", " / ")
            self.log.line(f"sample: {first if len(first) <= LONGEST else first[:LONGEST] + ' …'}")
        stories = self.prepared.gold("valid") if self.processes.is_main else None
        if stories is None:
            return {}
        scores = score_answers(self.model, self.prepared.tokenizer, islice(stories, ANSWERED))
        return {"answers": scores.model} if scores else {}

    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Return loss, perplexity and bits per byte, plus pronoun accuracies if the split has gold labels."""
        loss = self.loss(split)
        self.log.line(f"{split}: {loss} ({loss.tokens} tokens, checkpoint of step {step})")
        figures = loss.metrics()
        stories = self.prepared.gold(split) if self.processes.is_main else None
        for score in story_scores(self.model, self.prepared.tokenizer, stories, split):
            where = f"; table: {self.log.table(f'{score.kind}.{split}', score.table, step)}" if score.table else ""
            self.log.line(score.summary + where)
            figures |= score.percent
        return figures


class PairEvaluator(Evaluator):
    """Translation: BLEU, chrF and exact match, sample translations, and baselines for the test scores."""

    described, headline = "translations and their scores", "chrf"

    prepared: PreparedPairs
    model: EncoderDecoder

    @property
    def test_settings(self) -> dict[str, float]:
        """Also those of the beam search."""
        trainer = self.config.trainer
        return super().test_settings | {"beam_size": trainer.beam_size, "length_penalty": trainer.length_penalty}

    def batches(self, split: str, rank: int = 0, world: int = 1) -> Iterable[Batch]:
        """Return all pairs of the split, bucketed by length, as in Evaluator."""
        return self.prepared.evaluation(split, self.config.data.batch_tokens, rank=rank, world=world)

    def show(self, step: int) -> dict[str, float]:
        """Translate the first validation sentences greedily and show the first few with their references."""
        rows = self.prepared.rows("valid")[: self.config.trainer.evaluate_sentences]
        if not rows["source"]:
            return {}
        greedy = TranslationConfig(beam_size=1)
        scores, examples, cut = translate_rows(self.model, self.prepared, rows, greedy, self.processes)
        whole = self.prepared.size("valid")
        if len(examples) < whole:
            self.attention.note_once(
                f"valid: BLEU, chrF and exact matches are of the first {len(examples):,} of {whole:,} pairs"
                " (trainer.evaluate_sentences)"
            )
        self.log_cut("valid", cut, len(examples))
        sample = [list(map(one_line, row)) for row in examples[: self.config.trainer.samples]]
        self.log.markdown("samples", f"{table(COLUMNS, sample)}\n\n{signatures()}", step)
        for source, reference, hypothesis in sample:
            self.log.line(f"  {source} → {hypothesis}  (reference: {reference})")
        return asdict(scores)

    def test_split(self, split: str, step: int) -> dict[str, float]:
        """Log scores and baselines as a table; write all translations to `translations.<split>.tsv`, with backslash
        escapes for tabs, line breaks and backslashes."""
        trainer = self.config.trainer
        options = TranslationConfig(trainer.beam_size, trainer.length_penalty)
        rows = self.prepared.rows(split)[:]
        scores, examples, cut = translate_rows(self.model, self.prepared, rows, options, self.processes)
        if not self.processes.is_main:
            return asdict(scores)
        self.log_cut(split, cut, len(examples))
        compared = {f"this model (beam {trainer.beam_size})": scores}
        compared |= baselines(self.prepared, rows["source"], rows["target"])
        lines = [[name, f"{s.bleu:.1f}", f"{s.chrf:.1f}", f"{s.exact:.1f} %"] for name, s in compared.items()]
        report = table([f"{split}: {len(examples)} sentences", "char-BLEU", "chrF", "exact"], lines)
        self.log.line(f"\n{report}\n")
        self.log.detail(signatures())
        self.log.markdown(f"tables/scores.{split}", f"{report}\n\n{signatures()}", step)
        rest = f"\n\nThe first {SHOWN} of {len(examples):,}; all are in `translations.{split}.tsv`."
        text = table(COLUMNS, [list(map(one_line, row)) for row in examples[:SHOWN]]) + rest * (len(examples) > SHOWN)
        self.log.markdown(f"tables/translations.{split}", text, step)
        tsv = "".join("\t".join(map(cell, row)) + "\n" for row in [COLUMNS, *examples])
        write_whole(self.run / f"translations.{split}.tsv", tsv.encode())
        return asdict(scores)

    def log_cut(self, split: str, cut: int, count: int) -> None:
        """Log the number of translations that did not end."""
        if cut:
            self.log.line(f"{split}: {cut:,} of {count:,} translations did not end and are cut at their maximal length")


def sample_documents(model: GPT, tokenizer: Tokenizer, count: int, seed: int, max_tokens: int) -> list[str]:
    """Sample `count` documents from their beginning, at most `max_tokens` tokens each, without changing the global
    random state; document r is seeded with `seed` + r. `model` is in any mode and stays as it is."""
    device = next(model.parameters()).device
    ready = prepare(model, decoding_format(device, count_parameters(model)))
    config = SamplingConfig(max_tokens=max_tokens)
    prompts = [[tokenizer.start_id]] * count
    written: list[list[int]] = [[] for _ in prompts]
    for tokens in sampler(ready)(
        ready, prompts, config, seed=seed, stop_ids=tokenizer.stop_ids, banned_ids=tokenizer.never_written
    ):
        for text, token in zip(written, tokens, strict=True):
            if token is not None:
                text.append(token)
    return [tokenizer.decode(ids) for ids in written]


def evaluator_for(
    config: TrainConfig, prepared: Prepared, model: Model, run: Path, log: RunLog, processes: Processes = SINGLE
) -> Evaluator:
    """Return the evaluator for the config's task."""
    kind = TextEvaluator if isinstance(prepared, PreparedText) else PairEvaluator
    return kind(config, prepared, model, run, log, processes)
