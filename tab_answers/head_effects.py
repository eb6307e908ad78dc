"""Effect of each head on the predictions in a text: the losses of its tokens when that head alone is ablated."""

from __future__ import annotations

import time
from typing import Any

from configs.errors import UserError
from interpretability.ablation import head_places, replace_head_outputs
from tab_answers.model_cache import Models
from tab_answers.predictions import logits_of, losses_of
from tab_answers.question import EffectsQuestion
from tab_answers.replaced_outputs import means_of
from tab_answers.run_recordings import examples_in
from training.hardware.threads import threads_for

SECONDS = 5.0
"""Time after which no more heads are ablated: other questions wait."""


def effects_of(question: EffectsQuestion, models: Models, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the answer to a question, for JSON. Raises UserError if it cannot be answered.

    `predicts`: the pieces of the T next tokens; where the text ends and none is known, the most likely one. `whole`:
    their losses [T] by the whole model, in nats. `heads`: [kind, layer, head] of each head, and `losses` [heads, T]:
    the losses without that head. `left`: number of heads that were left out because the time was over.
    """
    cached = models.get(question.run, question.checkpoint)
    run = cached.run
    examples = examples_in(question.recording, run)
    if not examples:
        raise UserError("the recording of this text is not there any more, or of another model: ask again")
    example = examples[0]
    until = time.monotonic() + seconds
    with threads_for(run.model, len(example.target_ids)):
        logits = logits_of(run, example)
        expected = [*example.next_ids, *logits[len(example.next_ids) :].argmax(dim=-1).tolist()]
        means = means_of(cached, example) if question.how == "mean" else None
        places, losses = head_places(run.model), []
        for head in places:
            if time.monotonic() > until:
                break
            with replace_head_outputs(run.model, {head: 0.0 if means is None else means[head]}):
                losses.append(losses_of(logits_of(run, example), expected))
    return {
        "predicts": run.tokenizers[-1].pieces(expected),
        "whole": losses_of(logits, expected),
        "heads": [list(head) for head in places[: len(losses)]],
        "losses": losses,
        "left": len(places) - len(losses),
    }
