"""Compute the outputs that replace those of removed and patched heads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.example import Example
from configs.errors import UserError
from interpretability.ablation import Head, chosen_heads, record_head_outputs
from run import Run
from tab_answers.model_cache import CachedModel
from tab_answers.question import Named, Patch, Question
from tab_answers.run_recordings import recorded_examples


def changed_outputs(question: Question, cached: CachedModel, example: Example) -> dict[Head, Tensor | float]:
    """Return the new output of each removed or patched head: 0, its mean output [D], or its output [T, D] in the other
    text. Raises UserError if a head does not exist, or if the other text has another number of tokens."""
    removed = heads_of(cached.run, question.removed)
    outputs: dict[Head, Tensor | float] = {}
    if removed and question.how == "mean":
        means = means_of(cached, example)
        outputs = {head: means[head] for head in removed}
    else:
        outputs = dict.fromkeys(removed, 0.0)
    if question.patch is not None:
        outputs |= patched_outputs(question, question.patch, cached.run, example)
    return outputs


def heads_of(run: Run, named: tuple[Named, ...]) -> list[Head]:
    """Return the named heads. Raises UserError if one does not exist."""
    try:
        return chosen_heads(run.model, named)
    except LookupError as error:
        raise UserError(f"the model has {error}") from error


def patched_outputs(question: Question, patch: Patch, run: Run, example: Example) -> dict[Head, Tensor | float]:
    """Return the output [T, D] of the heads of the question's patch in its text, computed by the whole model."""
    heads = heads_of(run, patch.heads)
    other = run.example(patch.text, patch.target, question.reverse, question.decoding.beam_size)
    for side, mine, others in (
        ("text", example.target_ids, other.target_ids),
        ("source", example.source_ids or (), other.source_ids or ()),
    ):
        if len(mine) != len(others):
            side = "translation" if side == "text" and example.source_ids is not None else side
            counts = f"{len(mine)} and {len(others)} tokens"
            raise UserError(f"heads can be patched only between texts of equal length; the {side}s have {counts}")
    outputs = head_outputs(run, other)
    return {head: outputs[head] for head in heads}


def means_of(cached: CachedModel, example: Example) -> dict[Head, Tensor]:
    """Return the mean output of each head over the `recorded_examples` of the run (probes and validation examples),
    computed once for a model; without a readable recording, over `example`, which differs between questions."""
    if cached.means:
        return cached.means
    recorded = recorded_examples(cached.run)
    means = mean_outputs(cached.run, recorded or [example])
    if recorded:
        cached.means = means
    return means


def mean_outputs(run: Run, examples: Sequence[Example]) -> dict[Head, Tensor]:
    """Return the mean output [D] of each head over all positions of some examples."""
    sums: dict[Head, Tensor] = {}
    counts: dict[Head, int] = {}
    for example in examples:
        for head, output in head_outputs(run, example).items():
            sums[head] = sums.get(head, torch.zeros_like(output[0])) + output.sum(dim=0)
            counts[head] = counts.get(head, 0) + len(output)
    return {head: total / counts[head] for head, total in sums.items()}


def head_outputs(run: Run, example: Example) -> dict[Head, Tensor]:
    """Return the output [T, D] of each head in an example."""
    with undisturbed(run.model), record_head_outputs(run.model) as outputs:
        run.model(*inputs_of(example))
    return {head: output[0] for head, output in outputs.items()}


def inputs_of(example: Example) -> list[Tensor]:
    """Return the arguments of the model for a single example, [1, S] and [1, T]."""
    sides = [example.target_ids] if example.source_ids is None else [example.source_ids, example.target_ids]
    return [torch.tensor([list(ids)]) for ids in sides]
