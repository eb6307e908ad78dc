"""From the text of a question to the tokens that are recorded, with what the model writes."""

from __future__ import annotations

from pathlib import Path

from attention_maps.record.example import Example
from configs.errors import UserError
from generation.config import ONE_DIRECTION, SamplingConfig
from generation.input_warnings import unknown_characters
from generation.sampling import generate
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from run import Run


def continued(run: Run, example: Example, count: int) -> tuple[Example, str]:
    """Return a GPT's text with at most `count` more tokens, the most likely one each time, and the written text."""
    tokenizer, ids = run.tokenizers[0], list(example.target_ids)
    assert isinstance(run.model, GPT)
    count = min(count, run.longest - len(ids))
    written: list[int] = []
    if count > 0:
        config = SamplingConfig(temperature=0.0, max_tokens=count)
        banned = tokenizer.never_written
        steps = generate(run.model, [ids], config, stop_ids=tokenizer.stop_ids, banned_ids=banned)
        written = [token for (token,) in steps if token is not None]
    return Example.text([*ids, *written], tokenizer), tokenizer.decode(written)


def check_task(run: Run, translates: bool, reverse: bool) -> None:
    """Raise UserError if the question is for a model of the other task, or of one direction only."""
    if translates != isinstance(run.model, EncoderDecoder):
        kinds = ("a GPT: it needs a text", "a translator: it needs a source")
        raise UserError(f"{named(run.folder)} is {kinds[isinstance(run.model, EncoderDecoder)]}")
    if reverse and not run.config.data.both_directions:
        raise UserError(f"{named(run.folder)} {ONE_DIRECTION}")


def notes_on(run: Run, text: str) -> list[str]:
    """Return sentences about parts of the text that the model cannot read."""
    tokenizer, most = run.tokenizers[0], run.longest
    ids = tokenizer.encode(text)
    notes = [unknown_characters(tokenizer, text, ids)]
    if isinstance(run.model, GPT) and len(ids) >= most:
        notes.append(f"with the token before it, the text has {len(ids) + 1} tokens; only the last {most} are read")
    return list(filter(None, notes))


def named(folder: Path) -> str:
    """Return the name of a run for messages."""
    return f"run {folder.absolute().name}"
