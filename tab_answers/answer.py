"""Answer a question: record the maps of its text, and compare the predictions with those of the whole model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attention_maps.files import store
from attention_maps.record.example import Example
from attention_maps.record.recording import Recording
from configs.errors import UserError
from generation.config import ONE_DIRECTION
from generation.input_warnings import unknown_characters
from generation.sampling import generate
from interpretability.ablation import replace_head_outputs
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from run import Run
from tab_answers.model_cache import CachedModel, Labels, Models
from tab_answers.predictions import logits_of, losses_of, next_tokens
from tab_answers.question import BEAM, SAMPLING, Question
from tab_answers.replaced_outputs import changed_outputs
from tab_answers.run_recordings import labels_of
from training.hardware.threads import threads_for


def answer(question: Question, models: Models) -> dict[str, Any]:
    """Write the recordings of a question and return the rest of its answer, for JSON.

    The text is continued or translated by the whole model, so that both models read the same tokens and their maps can
    be subtracted. `tokens`: read in each row; `predicts`: the known next tokens; `next`: for each row, the likely next
    tokens and the known one as [id, piece, probability, probability by the whole model]; `losses`: of the known next
    tokens, in nats; `written`: the continuation or translation; `decoding`: the settings of generate.py by which it was
    written, null if nothing was. With heads removed, `whole` holds the same of the whole model; otherwise it and the
    last probabilities are null. Raises UserError if the question cannot be answered.
    """
    cached = models.get(question.run, question.checkpoint)
    check_task(cached.run, question.source is not None, question.reverse)
    text = question.text if question.source is None else question.source
    assert text is not None
    with threads_for(cached.run.model, len(text)):  # a text has about as many tokens as letters, or fewer
        return _answer(question, cached, text)


def _answer(question: Question, cached: CachedModel, text: str) -> dict[str, Any]:
    """Answer a question about a text with the present number of threads."""
    run = cached.run
    start = run.example(text, question.target, question.reverse, question.decoding.beam_size)
    outputs = changed_outputs(question, cached, start)
    example, written = continued(run, start, question) if question.written else (start, None)
    if question.source is not None and question.target is None:
        written = run.tokenizers[-1].decode(example.target_ids)
    logits = logits_of(run, example)
    whole = recording_of(run, example, labels_of(cached))
    reply = {
        "task": run.config.task,
        "checkpoint": run.checkpoint.name,
        "step": run.step,
        "tokens": list(example.target_pieces),
        "predicts": list(example.next_pieces),
        "source": None if example.source_pieces is None else list(example.source_pieces),
        "typed": len(start.target_ids),
        "notes": notes_on(run, text),
        "decoding": decoding_of(question),
    }
    if not outputs:
        store.write(whole, question.to)
        predictions = {"next": next_tokens(run, example, logits, None), "losses": losses_of(logits, example.next_ids)}
        return reply | predictions | {"written": written, "whole": None}
    if question.whole_to is not None:
        store.write(whole, question.whole_to)
    with replace_head_outputs(run.model, outputs):
        changed = logits_of(run, example)
        rewritten = None if written is None else written_without(question, run, start, text)
        store.write(recording_of(run, example, whole.labels, name_of(question)), question.to)
    return reply | {
        "next": next_tokens(run, example, changed, logits),
        "losses": losses_of(changed, example.next_ids),
        "written": rewritten,
        "whole": {"losses": losses_of(logits, example.next_ids), "written": written},
    }


def written_without(question: Question, run: Run, start: Example, text: str) -> str | None:
    """Return what the model writes while its heads are replaced; None while they are patched, because their outputs
    exist for the tokens of the whole model only."""
    if question.written:
        return continued(run, start, question)[1]
    return None if question.patch else run.translation(text, question.reverse, question.decoding.beam_size).text


def recording_of(run: Run, example: Example, labels: Labels | None, name: str = "") -> Recording:
    """Return a recording of one example by the model as it is, in which heads may be removed. labels: those of the
    heads; None: those of this example alone."""
    recording = run.record(replace(example, name=name))
    return recording if labels is None else replace(recording, labels=labels)


def name_of(question: Question) -> str:
    """Return a name for a text read without some heads: `without layer 0 · head 1 (zero ablation)`."""
    heads = [(*head_place, "without") for head_place in question.removed]
    heads += [(*head_place, "patched") for head_place in (question.patch.heads if question.patch else ())]
    if len(heads) > 1:
        return f"{len(heads)} heads or layers changed"
    ((kind, layer, head, what),) = heads
    kinds = {"cross": "cross-attention · ", "encoder": "encoder · ", "decoder": "decoder · "}
    of = "" if question.source is None else kinds[kind]  # a GPT has a decoder alone
    method = f" ({question.how} ablation)" if what == "without" else ""
    return f"{what} layer {layer} · {of}{'all heads' if head is None else f'head {head}'}{method}"


def decoding_of(question: Question) -> dict[str, Any] | None:
    """Return the settings by which the question has a text written; None if it has none written."""
    written = question.written > 0 if question.source is None else question.target is None
    keys = SAMPLING if question.source is None else BEAM
    return {key: getattr(question.decoding, key) for key in keys} if written else None


def continued(run: Run, example: Example, question: Question) -> tuple[Example, str]:
    """Return a GPT's text with at most `question.written` more tokens, and the written text."""
    tokenizer, ids = run.tokenizers[0], list(example.target_ids)
    assert isinstance(run.model, GPT)
    count = min(question.written, run.longest - len(ids))
    written: list[int] = []
    if count > 0:
        config = replace(question.decoding, max_tokens=count)
        stop, banned = tokenizer.stop_ids, tokenizer.never_written
        steps = generate(run.model, [ids], config, seed=config.seed, stop_ids=stop, banned_ids=banned)
        written = [token for (token,) in steps if token is not None]
    return Example.text([*ids, *written], tokenizer), tokenizer.decode(written)


def check_task(run: Run, translates: bool, reverse: bool) -> None:
    """Raise UserError if the question is for a model of the other task, or of one direction only."""
    name = f"run {run.folder.absolute().name}"
    if translates != isinstance(run.model, EncoderDecoder):
        kinds = ("a GPT: it needs a text", "a translator: it needs a source")
        raise UserError(f"{name} is {kinds[isinstance(run.model, EncoderDecoder)]}")
    if reverse and not run.config.data.both_directions:
        raise UserError(f"{name} {ONE_DIRECTION}")


def notes_on(run: Run, text: str) -> list[str]:
    """Return sentences about parts of the text that the model cannot read."""
    tokenizer, most = run.tokenizers[0], run.longest
    ids = tokenizer.encode(text)
    notes = [unknown_characters(tokenizer, text, ids)]
    if isinstance(run.model, GPT) and len(ids) >= most:
        notes.append(f"with the token before it, the text has {len(ids) + 1} tokens; only the last {most} are read")
    return list(filter(None, notes))
