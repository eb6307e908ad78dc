"""Record the attention maps of a run, and score its heads against gold labels at evaluations."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from attention_maps.files import store
from attention_maps.record.example import Example
from attention_maps.record.head_measures_and_labels import scalars
from attention_maps.record.recording import Measures, Recording
from data.batches.batch import Batch
from data.training_data import Prepared, PreparedPairs, PreparedText
from interop.about import about
from interop.export_input import Trained
from interpretability.head_behaviours import head_behaviours, repeated_tokens
from interpretability.recorder import record
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig
from training.evaluation.head_importance import BATCHES, example_batch, head_importance
from training.evaluation.head_scores import HeadScores, alignment_scores, antecedent_scores, head_table
from training.evaluation.recorded_examples import pair_examples, text_examples
from training.guided_alignment.guidance import guided_heads
from training.hardware.threads import threads_for
from training.run_folder.loaded_run import Model
from training.run_folder.log import RunLog

TOLERANCE = 0.05
"""Maximum deviation of the recorded attention from the fused kernel, as a fraction of the largest output: bfloat16
rounds to 1 in 256, and a sum of many such values deviates by a few times that."""


CURVES = 200
"""Number of first evaluations that all write the curves of attention, up to ten for each attention layer. TensorBoard
shows at most 1,000 points of a curve."""


IMPORTANCE_SHARE = 0.003
"""Measurements of the importance of heads at evaluations may take this fraction of the time besides the allowance: with
12 layers of 8 heads and texts of 128 tokens, each takes a second."""

IMPORTANCE_ALLOWANCE = 0.5
"""Seconds: all measurements of a short run with a small model."""


def is_chosen(number: int, first: int | None) -> bool:
    """Whether the evaluation of this number, from 1, is one of the `first`, then of every second, then of every fourth,
    … each time their number doubles."""
    return first is None or number % (1 << (-(-number // first) - 1).bit_length()) == 0


@contextmanager
def without_cycles() -> Iterator[None]:
    """Free the reference cycles made inside the context, as those of a figure: several MB. Older objects are not
    looked at: a full collection takes 0.1 s."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        gc.collect(0)


class AttentionRecorder:
    """Records the same few examples of a run, at evaluations and between them."""

    def __init__(self, config: TrainConfig, prepared: Prepared, model: Model, run: Path, log: RunLog) -> None:
        self.config, self.prepared, self.model, self.run, self.log = config, prepared, model, run, log
        self.noted: set[str] = set()
        """Notes that are in the log already."""
        self.gold_measures: Measures = {}
        """Measures against gold labels of the last evaluation, which label the heads until the next."""
        self.started = time.perf_counter()
        self.importance_seconds: list[float] = []
        """Time of each measurement of the importance of heads."""
        self.written: list[Path] = []
        """Recordings that may not be on the disk yet."""

    def record(self, step: int) -> None:
        """Save the maps with scores against gold labels, the importance of each head for the examples, their measures
        as curves, and one image; skipped if there are no examples and no scores."""
        attention = self.config.attention
        examples = self.examples()
        importance = self.importance(examples)
        gold = self.head_scores("valid", attention.scored)
        recording = self.recording(step, examples, gold, importance)
        if not recording.samples and not recording.scores:
            return
        self.save(recording)
        self.flush()
        number = self.log.evaluations + 1
        if is_chosen(number, CURVES):
            # The prefix sorts these many charts after the main curves.
            self.log.scalars({f"val_{tag}": value for tag, value in scalars(recording.measures).items()}, step)
        else:
            self.note_once(f"after {CURVES} evaluations, curves of attention have a point at every second, later fewer")
        if attention.image and recording.samples and is_chosen(number, attention.images):
            from attention_maps.draw.pictures import for_images  # matplotlib takes 30 MB

            with without_cycles():
                self.log.image("maps", for_images(recording).pixels(), step)

    def prepare(self) -> None:
        """Import what complete recordings need, before training: `datasets` takes a second, matplotlib 0.3 s."""
        self.gold("valid")
        if self.config.attention.image:
            import attention_maps.draw.pictures  # noqa: F401

    def importance(self, examples: list[Example]) -> Measures:
        """Measure the importance of each head for the examples; empty if there are none, or if the measurements would
        take more than `IMPORTANCE_SHARE` of the time until now. The first one is always made, and all of them with
        `trainer.limit_evaluations=false`."""
        spent = sum(self.importance_seconds)
        share = IMPORTANCE_SHARE if self.config.trainer.limit_evaluations else math.inf
        allowed = IMPORTANCE_ALLOWANCE + share * (time.perf_counter() - self.started)
        batch = example_batch(examples, min(self.config.attention.max_tokens, self.model.config.context))
        if batch is None or (self.importance_seconds and spent + self.importance_seconds[-1] > allowed):
            return {}
        before = time.perf_counter()
        increases = head_importance(self.model, [batch])
        self.importance_seconds.append(time.perf_counter() - before)
        return {"importance": increases}

    def record_maps(self, step: int) -> None:
        """Save the maps alone, between evaluations: without scores on more examples, curves and image."""
        attention = self.config.attention
        if attention.probes or attention.examples:
            self.save(self.recording(step, self.examples()))

    def flush(self) -> None:
        """Wait until all recordings are on the disk: at evaluations, before a checkpoint from which a run resumes.
        Until then, a power failure may leave empty files, which the run that resumes before them deletes."""
        store.make_durable(self.written)
        self.written.clear()

    def save(self, recording: Recording) -> None:
        """Save a recording in the run folder; delete others beyond `attention.keep`."""
        step, keep = recording.step, self.config.attention.keep
        if recording.deviation > TOLERANCE:
            self.log.line(
                f"warning: attention maps of step {step} deviate from the fused kernel's output (by"
                f" {recording.deviation:.1%} of the largest value): please report this with the log line that names the"
                " kernel"
            )
        self.log.place.check()  # the name may be that of another run by now
        self.written.append(store.save(recording, self.run, durable=False, parents=False))
        if keep is not None and store.thin(self.run, keep):
            self.note_once(
                f"more than {keep} steps have attention maps: from now on some are deleted, so that the rest is evenly"
                " spaced (attention.keep)"
            )

    def recording(
        self, step: int, examples: list[Example], gold: HeadScores | None = None, measured: Measures | None = None
    ) -> Recording:
        """Record the maps of all examples; the scores of `gold` and `measured` are added to the measures."""
        if gold:
            self.gold_measures = gold.measures
        tokens = sum(len(example.target_ids) + len(example.source_ids or ()) for example in examples)
        with threads_for(self.model, tokens):
            return self.recorded(step, examples, gold, measured or {})

    def recorded(self, step: int, examples: list[Example], gold: HeadScores | None, measured: Measures) -> Recording:
        """Record the maps with the present number of threads."""
        labels = self.prepared.tokenizers[-1]
        repeated, behaviours = None, dict[str, Any]()
        if isinstance(self.model, GPT) and isinstance(self.prepared, PreparedText):
            words = labels.start_id, self.prepared.whole_words
            repeated = repeated_tokens(self.model, *words) if examples else None
            behaviours = {} if examples else head_behaviours(self.model, *words)
        return record(
            self.model,
            examples,
            labels.special_ids,
            step,
            pieces=labels.pieces,
            max_tokens=self.config.attention.max_tokens,
            scores=gold.scores if gold else (),
            measured=behaviours | (gold.measures if gold else {}) | measured,
            known=self.gold_measures,
            repeated=repeated,
            about=about(Trained(self.model, self.prepared.tokenizers, self.run, step, self.settings)),
        )

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The config as it is saved."""
        return asdict(self.config)

    def examples(self) -> list[Example]:
        """Return the probes and the first validation examples."""
        if isinstance(self.prepared, PreparedText):
            return self.texts
        assert isinstance(self.prepared, PreparedPairs)
        assert isinstance(self.model, EncoderDecoder)
        return pair_examples(self.config.attention, self.prepared, self.model)

    @cached_property
    def texts(self) -> list[Example]:
        """The examples of a GPT, always the same."""
        assert isinstance(self.prepared, PreparedText)
        return text_examples(self.config.attention, self.prepared, gold=self.gold("valid") is not None)

    def gold(self, split: str) -> Any:
        """Return the rows of a split with gold labels; None if there are none or head scoring is off."""
        return self.prepared.gold(split) if self.config.attention.scored else None

    def head_scores(self, split: str, count: int | None = None, chosen: HeadScores | None = None) -> HeadScores | None:
        """Score the heads on the first `count` rows of a split (None: all rows); None without gold labels."""
        gold = self.gold(split)
        if gold is None:
            return None
        rows = islice(gold, count)
        if isinstance(self.model, EncoderDecoder):
            guided = guided_heads(self.model.config, self.config.trainer.guided_alignment)
            scores = alignment_scores(self.model, self.prepared.tokenizers, rows, chosen=chosen, guided=guided)
        else:
            scores = antecedent_scores(self.model, self.prepared.tokenizers[0], rows, chosen=chosen)
        if scores is None or scores.left_out:
            size = len(gold) if count is None else min(count, len(gold))
            number = "all" if scores is None else f"{scores.left_out:,}"
            self.note_once(
                f"{split}: heads are scored without {number} of {size:,} rows, which are longer than"
                f" model.context={self.model.config.context}"
            )
        return scores

    def note_once(self, note: str) -> None:
        """Log a note that holds for all evaluations."""
        if note not in self.noted:
            self.noted.add(note)
            self.log.line(f"note: {note}")

    def test(self, split: str, step: int) -> dict[str, float]:
        """Score the heads on a split; write a summary to the log and all scores to `heads.<split>.txt`; return the
        value of each measure. The heads to report are selected on the validation split; selecting them on the test
        split would inflate the scores."""
        chosen = self.chosen if self.config.attention.enabled else None
        scores = self.head_scores(split, chosen=chosen) if chosen else None
        if chosen is None or scores is None:
            return {}
        best = [scores.named(score.measure, score.name) for score in chosen.best()]
        report = [*(scores.compared(split, score) for score in best), scores.report(split)]
        path = self.log.table(f"heads.{split}", "\n\n".join(report), step)
        self.log.line(f"{split}: {', '.join(map(scores.in_short, best))}; tables: {path}")
        return {score.measure: score.value for score in best}

    @cached_property
    def chosen(self) -> HeadScores | None:
        """Scores on the full validation split, which select the heads to report for the test splits."""
        return self.head_scores("valid")

    def measure_importance(self, step: int, batches: Iterable[Batch]) -> None:
        """Log the importance of each head, and save it with newly recorded maps of `step`."""
        every = list(batches)
        importance = head_importance(self.model, every)
        title = f"nats lost without the head, on {min(BATCHES, len(every))} of {len(every)} validation batches"
        tables = [head_table(f"{kind}: {title}", of, "+.4f") for kind, of in importance.items()]
        gold = self.head_scores("valid", self.config.attention.scored)
        store.save(self.recording(step, self.examples(), gold, {"importance": importance}), self.run, parents=False)
        path = self.log.table("heads.importance", "\n\n".join(tables), step)
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
        """On resume, delete the maps of steps that will be trained again."""
        store.remove_after(self.run, step)
