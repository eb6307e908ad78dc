"""Answer a question: record the maps of its text, and compare the predictions with those of the whole model."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_maps.files import store
from attention_maps.record.example import Example
from attention_maps.record.undisturbed import undisturbed
from inspection.changes import changed_outputs, inputs_of
from inspection.models import KeptModel, Models
from inspection.question import Question
from inspection.texts import check_task, continued, example_of, limit_of, notes_on, translation_of
from interpretability.recorder import record
from model.recording import replace_head_outputs
from training.hardware.threads import threads_for
from training.run_folder.loaded_run import LoadedRun

TOP = 5
"""Number of next tokens listed for each of the two models."""


def answer(question: Question, models: Models) -> dict[str, Any]:
    """Write the recordings of a question and return the rest of its answer, for JSON.

    The text is continued or translated by the whole model, so that both models read the same tokens and their maps can
    be subtracted. `tokens`: read in each row; `predicts`: the known next tokens; `next`: for each row, the likely next
    tokens and the known one as [id, piece, probability, probability by the whole model]; `losses`: of the known next
    tokens, in nats; `written`: the continuation or translation. With heads removed, `whole` holds the same of the whole
    model; otherwise it and the last probabilities are null. Raises UserError if the question cannot be answered.
    """
    kept = models.get(question.run, question.checkpoint)
    check_task(kept.run, question.source is not None, question.reverse)
    text = question.text if question.source is None else question.source
    assert text is not None
    with threads_for(kept.run.model, len(text)):  # a text has about as many tokens as letters, or fewer
        return _answer(question, kept, text)


def _answer(question: Question, kept: KeptModel, text: str) -> dict[str, Any]:
    """Answer a question about a text with the present number of threads."""
    run = kept.run
    start = example_of(run, text, question.target, question.reverse)
    outputs = changed_outputs(question, kept, start)
    example, written = continued(run, start, question.written) if question.written else (start, None)
    if question.source is not None and question.target is None:
        written = run.tokenizers[-1].decode(example.target_ids)
    logits = logits_of(run, example)
    found = {
        "task": run.config.task,
        "checkpoint": run.checkpoint.name,
        "step": run.step,
        "tokens": list(example.target_pieces),
        "predicts": list(example.next_pieces),
        "source": None if example.source_pieces is None else list(example.source_pieces),
        "typed": len(start.target_ids),
        "notes": notes_on(run, text),
    }
    if not outputs:
        store.write(recording_of(run, example), question.to)
        own = {"next": next_tokens(run, example, logits, None), "losses": losses_of(logits, example)}
        return found | own | {"written": written, "whole": None}
    if question.whole_to is not None:
        store.write(recording_of(run, example), question.whole_to)
    with replace_head_outputs(run.model, outputs):
        changed = logits_of(run, example)
        rewritten = None if written is None else written_without(question, run, start, text)
        store.write(recording_of(run, example, name_of(question)), question.to)
    return found | {
        "next": next_tokens(run, example, changed, logits),
        "losses": losses_of(changed, example),
        "written": rewritten,
        "whole": {"losses": losses_of(logits, example), "written": written},
    }


def written_without(question: Question, run: LoadedRun, start: Example, text: str) -> str | None:
    """Return what the model writes while its heads are replaced; None while they are patched, because their outputs
    exist for the tokens of the whole model only."""
    if question.written:
        return continued(run, start, question.written)[1]
    return None if question.patch else translation_of(run, text, question.reverse).text


def logits_of(run: LoadedRun, example: Example) -> Tensor:
    """Return the logits of an example, [T, V] float32."""
    with undisturbed(run.model):
        return run.model(*inputs_of(example))[0].float()


def losses_of(logits: Tensor, example: Example) -> list[float | None]:
    """Return the loss of each known next token in nats; logits [T, V]."""
    expected = torch.tensor(list(example.next_ids), dtype=torch.long)
    return [_rounded(loss) for loss in F.cross_entropy(logits[: len(expected)], expected, reduction="none").tolist()]


def next_tokens(run: LoadedRun, example: Example, logits: Tensor, whole: Tensor | None) -> list[list[list[Any]]]:
    """Return, for each token read, the likely next tokens of either model and the actual one as [id, piece,
    probability, probability by the whole model], the most likely first; logits [T, V]."""
    chances, others = logits.softmax(dim=-1), None if whole is None else whole.softmax(dim=-1)
    found = []
    for row in range(len(chances)):
        ids = {*chances[row].topk(min(TOP, chances.shape[-1])).indices.tolist(), *example.next_ids[row : row + 1]}
        if others is not None:
            ids |= set(others[row].topk(min(TOP, chances.shape[-1])).indices.tolist())
        ordered = sorted(ids, key=lambda token: (-float(chances[row, token]), token))
        pieces = run.tokenizers[-1].pieces(ordered)
        found.append(
            [
                [*one, _chance(chances, row, one[0]), _chance(others, row, one[0])]
                for one in zip(ordered, pieces, strict=True)
            ]
        )
    return found


def _chance(chances: Tensor | None, row: int, token: int) -> float | None:
    return None if chances is None else _rounded(float(chances[row, token]))


def _rounded(number: float) -> float | None:
    """Round a number; one that is not finite becomes None, because browsers reject NaN in JSON."""
    return round(number, 6) if math.isfinite(number) else None


def recording_of(run: LoadedRun, example: Example, name: str = "") -> Any:
    """Return a recording of one example by the model as it is, in which heads may be removed."""
    named = Example(**vars(example) | {"name": name})
    labels = run.tokenizers[-1]
    return record(run.model, [named], labels.special_ids, run.step, pieces=labels.pieces, max_tokens=limit_of(run))


def name_of(question: Question) -> str:
    """Return a name for a text read without some heads: `without layer 0 · head 1`."""
    heads = [(*one, "without") for one in question.removed]
    heads += [(*one, "patched") for one in (question.patch.heads if question.patch else ())]
    if len(heads) > 1:
        return f"{len(heads)} heads or layers changed"
    ((kind, layer, head, what),) = heads
    kinds = {"cross": "cross-attention · ", "encoder": "encoder · ", "decoder": ""}
    return f"{what} layer {layer} · {kinds[kind]}{'all heads' if head is None else f'head {head}'}"
