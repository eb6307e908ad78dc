"""Attention maps of a run: recorded at evaluations, measured against gold where the corpus knows it, kept beside the event files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from attention_maps import store
from attention_maps.measures import scalars
from attention_maps.pictures import picture
from attention_maps.record import Example, record
from attention_maps.recording import Recording, Score
from data.batches import Batch
from data.prepare import PreparedPairs, PreparedText
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.attention_examples import pair_examples, text_examples
from training.config import TrainConfig
from training.head_importance import head_importance
from training.head_scores import HeadScores, alignment_scores, antecedent_scores
from training.run_folder import LoadedRun
from training.run_log import RunLog, table

TOLERANCE = 0.05
"""Largest deviation of the recorded weights from the fused kernel, as a share of the largest output: bfloat16 rounds to 1 in 256, and
the sum of many such values is off by a few times that."""

GENERATED = 16
"""Texts or translations whose maps `generate.py attention=true` keeps at most."""


class AttentionRecorder:
    """Records the same few examples of a run at every evaluation."""

    def __init__(
        self, config: TrainConfig, prepared: PreparedText | PreparedPairs, model: GPT | EncoderDecoder, run: Path, log: RunLog
    ) -> None:  # fmt: skip
        self.config, self.prepared, self.model, self.run, self.log = config, prepared, model, run, log
        self.gold = config.data.source == "primer"

    def record(self, step: int) -> None:
        """Store the maps, their measures as curves, and one picture."""
        attention = self.config.attention
        gold = self.head_scores("valid", attention.scored) if attention.scored else None
        labels = self.prepared.tokenizers[-1]
        recording = record(
            self.model,
            self.examples(),
            labels.special_ids,
            step,
            pieces=labels.pieces,
            max_tokens=attention.max_tokens,
            scores=gold.scores if gold else (),
            measured=gold.measures if gold else None,
        )
        if recording.deviation > TOLERANCE:
            self.log.line(
                f"warning: attention maps of step {step} are not what the fused kernel computes (off by {recording.deviation:.1%} of the "
                "largest output): please report this with the line that names the kernel"
            )
        store.save(recording, self.run)
        if attention.keep is not None:
            store.thin(self.run, attention.keep)
        # The prefix also sorts these many charts behind the curves that people look for first.
        self.log.scalars({f"val_{tag}": value for tag, value in scalars(recording.measures).items()}, step)
        if attention.image and recording.samples:
            self.log.image("attention", picture(recording), step)

    def examples(self) -> list[Example]:
        """The probes and the first validation examples."""
        if isinstance(self.prepared, PreparedText):
            return text_examples(self.config.attention, self.prepared, self.gold)
        assert isinstance(self.model, EncoderDecoder)
        return pair_examples(self.config.attention, self.prepared, self.model)

    def head_scores(self, split: str, count: int | None = None, chosen: HeadScores | None = None) -> HeadScores | None:
        """What heads get right in the first `count` rows (all of them if None) of a split whose gold is known."""
        if not self.gold:
            return None
        rows = islice(self.prepared.rows(split), count)
        if isinstance(self.model, EncoderDecoder):
            return alignment_scores(self.model, self.prepared.tokenizers, rows, chosen=chosen)
        return antecedent_scores(self.model, self.prepared.tokenizers[0], rows, chosen=chosen)

    def test(self, split: str, step: int) -> dict[str, float]:
        """Say what heads get right in a split, as tables, and return the figure of one read-out.

        Head and read-out are those that are best on the validation split: picking them here would flatter.
        """
        chosen = self.head_scores("valid") if self.config.attention.enabled else None
        found = self.head_scores(split, chosen=chosen) if chosen else None
        if chosen is None or found is None:
            return {}
        best = found.named(chosen.best().name)
        report = describe(split, found)
        self.log.line(f"\n{report}\n\nbest on the validation split, here {best.value:.1f} %: {described(best)}\n")
        self.log.markdown(f"{split} heads", report, step)
        return {best.measure: best.value}

    def measure_importance(self, step: int, batches: Iterable[Batch]) -> None:
        """Say what each head is worth, and keep it with the maps of that step."""
        importance = head_importance(self.model, batches)
        tables = []
        for kind, layers in importance.items():
            header = [f"{kind}: nats lost without the head", *(f"head {head}" for head in range(len(layers[0])))]
            lines = [[f"layer {layer}", *(f"{value:+.4f}" for value in heads)] for layer, heads in enumerate(layers)]
            tables.append(table(header, lines))
        report = "\n\n".join(tables)
        self.log.line(f"\n{report}\n")
        self.log.markdown("head importance", report, step)
        file = store.path(self.run, step)
        if file.exists():
            recording = store.load(file)
            store.save(replace(recording, measures=recording.measures | {"importance": importance}), self.run)

    def forget_after(self, step: int) -> None:
        """Resuming: drop the maps of steps that are about to be taken again."""
        store.remove_after(self.run, step)


TITLES = {
    "alignment_error": "{split}: alignment error rate of cross-attention, {count} pairs",
    "antecedent": "{split}: antecedents found by decoder heads, {count} pronouns",
}


def describe(split: str, found: HeadScores) -> str:
    """Two Markdown tables: read-outs with their baselines, and every head."""
    measure = found.scores[0].measure
    title = TITLES[measure].format(split=split, count=found.count)
    parts = [table([title, "%"], [[described(score), f"{score.value:.1f}"] for score in found.scores])]
    for kinds in found.measures.values():
        for layers in kinds.values():
            header = [f"{split}: each head", *(f"head {head}" for head in range(len(layers[0])))]
            lines = [[f"layer {number}", *(f"{value:.1f} %" for value in heads)] for number, heads in enumerate(layers)]
            parts.append(table(header, lines))
    return "\n\n".join(parts)


def described(score: Score) -> str:
    """A read-out by name, a single head with its place."""
    return score.name if score.head is None else f"{score.name} (layer {score.layer}, head {score.head})"


def record_generated(run: LoadedRun, examples: Sequence[Example]) -> tuple[Path, Recording]:
    """Record what a trained run has just written or translated, into its own folder; the first `GENERATED` examples."""
    labels = run.tokenizers[-1]
    recording = record(
        run.model,
        examples[:GENERATED],
        labels.special_ids,
        run.step,
        pieces=labels.pieces,
        max_tokens=run.config.attention.max_tokens,
    )
    return store.save_generated(recording, run.folder), recording
