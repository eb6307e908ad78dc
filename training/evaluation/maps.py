"""Attention maps of a run: recorded at evaluations, measured against gold where the corpus knows it, kept beside the
event files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from attention_maps.draw.pictures import for_images
from attention_maps.files import store
from attention_maps.record.example import Example
from attention_maps.record.measures import scalars
from attention_maps.record.recorder import record
from attention_maps.record.recording import Measures, Recording
from data.batches.batch import Batch
from data.prepare import PreparedPairs, PreparedText
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig
from training.evaluation.head_importance import head_importance
from training.evaluation.head_scores import (
    HeadScores,
    alignment_scores,
    antecedent_scores,
    compared,
    describe,
    in_short,
)
from training.evaluation.recorded_examples import pair_examples, text_examples
from training.run_folder.log import RunLog, table

TOLERANCE = 0.05
"""Largest deviation of the recorded weights from the fused kernel, as a share of the largest output: bfloat16 rounds to
1 in 256, and the sum of many such values is off by a few times that."""


class AttentionRecorder:
    """Records the same few examples of a run at every evaluation."""

    def __init__(
        self,
        config: TrainConfig,
        prepared: PreparedText | PreparedPairs,
        model: GPT | EncoderDecoder,
        run: Path,
        log: RunLog,
    ) -> None:
        self.config, self.prepared, self.model, self.run, self.log = config, prepared, model, run, log

    def record(self, step: int) -> None:
        """Store the maps, their measures as curves, and one picture; nothing where there is nothing to look at."""
        attention = self.config.attention
        recording = self.recording(step)
        if not recording.samples and not recording.scores:
            return
        if recording.deviation > TOLERANCE:
            self.log.line(
                f"warning: attention maps of step {step} are not what the fused kernel computes (off by"
                f" {recording.deviation:.1%} of the largest output): please report this with the log line that names"
                " the kernel"
            )
        store.save(recording, self.run)
        if attention.keep is not None:
            store.thin(self.run, attention.keep)
        # The prefix also sorts these many charts behind the curves that people look for first.
        self.log.scalars({f"val_{tag}": value for tag, value in scalars(recording.measures).items()}, step)
        if attention.image and recording.samples:
            from attention_maps.draw.canvas import Canvas  # matplotlib: 30 MB and 0.3 s, which no start need wait for

            self.log.image("maps", for_images(recording).draw(Canvas), step)

    def recording(self, step: int, measured: Measures | None = None) -> Recording:
        """The maps of all examples and what heads get right; `measured` is kept with them."""
        gold = self.head_scores("valid", self.config.attention.scored)
        labels = self.prepared.tokenizers[-1]
        return record(
            self.model,
            self.examples(),
            labels.special_ids,
            step,
            pieces=labels.pieces,
            max_tokens=self.config.attention.max_tokens,
            scores=gold.scores if gold else (),
            measured=(gold.measures if gold else {}) | (measured or {}),
        )

    def examples(self) -> list[Example]:
        """The probes and the first validation examples."""
        if isinstance(self.prepared, PreparedText):
            return text_examples(self.config.attention, self.prepared, gold=self.gold("valid") is not None)
        assert isinstance(self.model, EncoderDecoder)
        return pair_examples(self.config.attention, self.prepared, self.model)

    def gold(self, split: str) -> Any:
        """The rows of a split with gold labels; None without them, or where heads are not scored."""
        return self.prepared.gold(split) if self.config.attention.scored else None

    def head_scores(self, split: str, count: int | None = None, chosen: HeadScores | None = None) -> HeadScores | None:
        """Scores of heads on the first `count` rows of a split (None: on all), where it has gold labels."""
        gold = self.gold(split)
        if gold is None:
            return None
        rows = islice(gold, count)
        if isinstance(self.model, EncoderDecoder):
            return alignment_scores(self.model, self.prepared.tokenizers, rows, chosen=chosen)
        return antecedent_scores(self.model, self.prepared.tokenizers[0], rows, chosen=chosen)

    def test(self, split: str, step: int) -> dict[str, float]:
        """Score the heads on a split: a line for the log, all read-outs in `heads.<split>.txt` -> a figure for each
        measure.

        Head and read-out are those that are best on the validation split: picking them here would flatter.
        """
        chosen = self.chosen if self.config.attention.enabled else None
        found = self.head_scores(split, chosen=chosen) if chosen else None
        if chosen is None or found is None:
            return {}
        best = [found.named(score.measure, score.name) for score in chosen.best()]
        details = [compared(split, found, score) for score in best]
        path = self.log.table(f"heads.{split}", "\n\n".join([*details, describe(split, found)]), step)
        self.log.line(f"{split}: {', '.join(in_short(found, score) for score in best)}; tables: {path}")
        return {score.measure: score.value for score in best}

    @cached_property
    def chosen(self) -> HeadScores | None:
        """The whole validation split's scores, by which heads and read-outs are chosen for the test splits."""
        return self.head_scores("valid")

    def measure_importance(self, step: int, batches: Iterable[Batch]) -> None:
        """Say what each head is worth to the model as it is, and keep it with the maps of `step`, recorded anew."""
        importance = head_importance(self.model, batches)
        tables = []
        for kind, layers in importance.items():
            header = [f"{kind}: nats lost without the head", *(f"head {head}" for head in range(len(layers[0])))]
            lines = [[f"layer {layer}", *(f"{value:+.4f}" for value in heads)] for layer, heads in enumerate(layers)]
            tables.append(table(header, lines))
        report = "\n\n".join(tables)
        store.save(self.recording(step, {"importance": importance}), self.run)
        path = self.log.table("heads.importance", report, step)
        rises = {
            (kind, layer, head): rise
            for kind, layers in importance.items()
            for layer, heads in enumerate(layers)
            for head, rise in enumerate(heads)
        }
        kind, layer, head = max(rises, key=lambda place: rises[place])
        self.log.line(
            f"most important head: {kind} layer {layer}, head {head}, {rises[kind, layer, head]:+.4f} nats per token"
            f" without it; table: {path}"
        )

    def forget_after(self, step: int) -> None:
        """Resuming: drop the maps of steps that are about to be taken again."""
        store.remove_after(self.run, step)
