"""Read the texts and head labels that a question needs from the run's recordings."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from attention_maps.files import store
from attention_maps.record.example import Example
from run import Run
from tab_answers.model_cache import CachedModel, Labels

EXAMPLES = 8
"""Maximum number of recorded examples that stand for the run: for mean outputs and for circuits."""


def recorded_examples(run: Run) -> list[Example]:
    """Return the examples of the newest recording of the run that the model can read, at most `EXAMPLES`."""
    steps = store.steps(run.folder)
    return examples_in(steps[max(steps)], run)[:EXAMPLES] if steps else []


def examples_in(file: Path, run: Run) -> list[Example]:
    """Return the examples of a recording that the model can read; the file may be missing or damaged."""
    try:
        samples = store.outline(file)[0].samples
    except (store.RecordingError, OSError):
        return []
    sizes, context = [tokenizer.vocab_size for tokenizer in run.tokenizers], run.model.config.context
    examples = []
    for sample in samples:
        source = None if sample.source is None else sample.source.ids
        reads, predicts = sample.reads, sample.predicts
        sides = [(reads.ids, sizes[-1]), ((0,) if source is None else source, sizes[0])]
        fits = all(0 < len(ids) <= context and all(0 <= token < size for token in ids) for ids, size in sides)
        known = len(reads.ids) - 1 <= len(predicts.ids) <= len(reads.ids)
        known = known and all(0 <= token < sizes[-1] for token in predicts.ids)
        if fits and known and (source is None) == (run.config.task == "gpt"):
            examples.append(Example(reads.ids, reads.pieces, predicts.ids, predicts.pieces, source))
    return examples


def labels_of(cached: CachedModel) -> Labels | None:
    """Return the labels of the heads in the recorded step nearest to that of the weights, which are measured on many
    examples; None if no such recording can be read."""
    steps = store.steps(cached.run.folder)
    if cached.labels is None and steps:
        nearest = min(steps, key=lambda step: abs(step - cached.run.step))
        with suppress(store.RecordingError, OSError):
            cached.labels = store.outline(steps[nearest])[0].labels
    return cached.labels
