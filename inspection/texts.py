"""From the text of a question to the tokens that are recorded, with what the model writes."""

from __future__ import annotations

from pathlib import Path

from attention_maps.record.example import Example
from configs.errors import UserError
from data.batches.sources import source_ids
from generation.config import ONE_DIRECTION, SamplingConfig, TranslationConfig
from generation.sampling import generate
from generation.source_notes import unknown_characters
from generation.translated import Translation
from generation.translation import best_translations
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.run_folder.loaded_run import LoadedRun

LONGEST = 512
"""Maximum number of tokens of a text or of either side of a pair: the size of a map grows with its square."""


def example_of(run: LoadedRun, text: str, target: str | None = None, reverse: bool = False) -> Example:
    """Return a text, or a source and its target, as an example; the model translates a source without a target.
    reverse: as in TranslationConfig.

    Of a text with more tokens than the model reads, only the end is kept, as `generate.py` does. Raises UserError if a
    source or target has more.
    """
    model, source, last = run.model, run.tokenizers[0], run.tokenizers[-1]
    if isinstance(model, GPT):
        return Example.text([source.start_id, *source.encode(text)][-limit_of(run) :], source)
    (ids,) = source_ids(source, [text.strip()], reverse)
    check_length(run, [*ids, source.eos_id], "source")
    if target is None:
        target_ids = translation_of(run, text, reverse).tokens[: limit_of(run) - 1]
    else:
        target_ids = check_length(run, [last.bos_id, *last.encode(target.strip())], "target")[1:]
    return Example.pair(ids, target_ids, source, last)


def continued(run: LoadedRun, example: Example, count: int) -> tuple[Example, str]:
    """Return a GPT's text with at most `count` more tokens, the most likely one each time, and the written text."""
    tokenizer, ids = run.tokenizers[0], list(example.target_ids)
    assert isinstance(run.model, GPT)
    count = min(count, limit_of(run) - len(ids))
    written: list[int] = []
    if count > 0:
        config = SamplingConfig(temperature=0.0, max_tokens=count)
        banned = tokenizer.never_written
        steps = generate(run.model, [ids], config, stop_ids=tokenizer.stop_ids, banned_ids=banned)
        written = [token for (token,) in steps if token is not None]
    return Example.text([*ids, *written], tokenizer), tokenizer.decode(written)


def translation_of(run: LoadedRun, source: str, reverse: bool) -> Translation:
    """Return the translation that `generate.py` prints for a source by default; reverse: as in TranslationConfig."""
    assert isinstance(run.model, EncoderDecoder)
    return best_translations(run.model, run.tokenizers, [source.strip()], TranslationConfig(reverse=reverse))[0]


def check_task(run: LoadedRun, translates: bool, reverse: bool) -> None:
    """Raise UserError if the question is for a model of the other task, or of one direction only."""
    if translates != isinstance(run.model, EncoderDecoder):
        kinds = ("a GPT: it needs a text", "a translator: it needs a source")
        raise UserError(f"{named(run.folder)} is {kinds[isinstance(run.model, EncoderDecoder)]}")
    if reverse and not run.config.data.both_directions:
        raise UserError(f"{named(run.folder)} {ONE_DIRECTION}")


def check_length(run: LoadedRun, ids: list[int], side: str) -> list[int]:
    """Return the ids. Raises UserError if there are more than the model reads."""
    if len(ids) > limit_of(run):
        raise UserError(f"the {side} has {len(ids)} tokens, and at most {limit_of(run)} can be read")
    return ids


def limit_of(run: LoadedRun) -> int:
    """Return the maximum number of tokens of a text or side, with special tokens."""
    return min(run.model.config.context, LONGEST)


def notes_on(run: LoadedRun, text: str) -> list[str]:
    """Return sentences about parts of the text that the model cannot read."""
    tokenizer, most = run.tokenizers[0], limit_of(run)
    ids = tokenizer.encode(text)
    notes = [unknown_characters(tokenizer, text, ids)]
    if isinstance(run.model, GPT) and len(ids) >= most:
        notes.append(f"with the token before it, the text has {len(ids) + 1} tokens; only the last {most} are read")
    return list(filter(None, notes))


def named(folder: Path) -> str:
    """Return the name of a run for messages."""
    return f"run {folder.absolute().name}"
