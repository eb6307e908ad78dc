"""What the tests of the view Ask share: two tiny runs whose models are asked, and what is read and clicked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from attention_maps.files import store
from attention_maps.record.recording import Antecedents
from attention_maps.tensorboard.worker_process import FIRST_LIMIT
from tests.attention_maps.tensorboard.browser.page import Page, wait_for
from training.checkpoints.early_weights import save_early_weights
from training.checkpoints.files import load_weights
from training.checkpoints.snapshot import Snapshot

CERTAIN = 30
"""Factor of all weights with which nearly all probabilities are 0 or 1."""
TEXT, STATUS, ANSWER = ".ask-form textarea", ".ask-status", ".ask-answer"
MARKED = 7
"""Recorded step of the GPT with gold labels."""
NOUN, PRONOUN, REPLY = 2, 4, 7
"""Positions of tokens in its first text."""


def mark_answer(run: Path) -> None:
    """Record a later step whose first text has a pronoun and an answer, by its gold labels."""
    recording = store.load(store.path(run, 6))
    first, *rest = recording.samples
    pieces = list(first.reads.pieces)
    pieces[NOUN], pieces[REPLY - 1], pieces[REPLY] = "▁Emi", "?", "▁Emi"
    predicts = [*pieces[1:], *first.predicts.pieces[len(pieces) - 1 :]]
    marked = replace(
        first,
        reads=replace(first.reads, pieces=tuple(pieces)),
        predicts=replace(first.predicts, pieces=tuple(predicts)),
        antecedents=Antecedents("reads", ((PRONOUN, PRONOUN + 1, NOUN, NOUN + 1), (REPLY, REPLY + 1, NOUN, NOUN + 1))),
    )
    store.save(replace(recording, step=MARKED, samples=(marked, *rest)), run)


def save_scaled(checkpoints: Path, step: int, size: float) -> None:
    """Keep the last weights, scaled, as those of an early step."""
    weights = {name: tensor * size for name, tensor in load_weights(checkpoints / "last").items()}
    save_early_weights(checkpoints, step, Snapshot(weights, {}))


def typed(page: Page, selector: str, text: str) -> None:
    """Replace the text of a field."""
    field = page.find(selector)
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(text or Keys.DELETE)


def ask(page: Page, text: str) -> None:
    """Ask the model about a text, and wait until the answer is drawn."""
    typed(page, TEXT, text)
    page.click(".ask-send")
    wait_for(page, STATUS, "is answered", FIRST_LIMIT)
    page.settle()


def pick(page: Page, position: int) -> None:
    """Click a word of the answer."""
    page.click(place_of(position))


def place_of(position: int) -> str:
    """Return the selector of a word of the answer."""
    return f"{ANSWER} .token[data-token=p{position}]"


def pressed(page: Page) -> tuple[int, str]:
    """Return the position and the text of the selected word of the answer."""
    (button,) = page.driver.find_elements("css selector", f"{ANSWER} .token[aria-pressed=true]")
    return int((button.get_attribute("data-token") or "")[1:]), button.text


def recording_of(page: Page) -> str:
    """Return the id of the recording shown."""
    return page.hash.partition("p.attention.recording=")[2].partition("&")[0]
