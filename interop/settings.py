"""Settings of `export.py`. This module does not import torch, so `--help` and errors in settings appear at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from configs.checkpoints import CHECKPOINTS, is_checkpoint
from configs.errors import UserError
from configs.settings import describe, read_settings

HELP = """Export a trained run to the format of another program: weights, tokenizer, generation settings, a model card.

  python export.py run=runs/NAME to=FOLDER                       for Hugging Face transformers
  python export.py run=runs/NAME to=FOLDER format=ctranslate2    for CTranslate2
  python export.py run=runs/NAME to=FOLDER format=gguf           for llama.cpp and Ollama

The folder is new and complete, or not written at all. A model that the other program cannot compute exactly is refused.

Settings (key=value):"""


@dataclass
class ExportSettings:
    """Export a trained run."""

    run: str | None = None
    """A run folder, runs/NAME, or one of its checkpoints, runs/NAME/checkpoints/step-00000500."""

    to: str | None = None
    """The folder to write, which must not exist yet."""

    format: Literal["huggingface", "ctranslate2", "gguf"] = "huggingface"
    """`huggingface`: a folder for `from_pretrained` of transformers. `ctranslate2`: a folder for CTranslate2.
    `gguf`: a file for llama.cpp and Ollama."""

    checkpoint: str = "best"
    """`best` (lowest validation loss), `last`, or the name of a step, step-00000500."""


def export_help() -> str:
    """Return the text of `--help`: usage and all settings."""
    return "\n".join([HELP, *describe(ExportSettings(), none="")])


def parse_settings(arguments: Sequence[str]) -> ExportSettings:
    """Parse and check the command line. Raises UserError with all problems."""
    settings, wrong = read_settings(ExportSettings, arguments)
    if wrong := wrong + problems(settings):
        raise UserError(*wrong)
    return settings


def problems(settings: ExportSettings) -> list[str]:
    """Return one sentence for each invalid setting, with its key."""
    wrong = [] if settings.run else ["run=runs/NAME is needed: the folder of a trained model"]
    wrong += [] if settings.to else ["to=FOLDER is needed: the folder to write"]
    if not is_checkpoint(settings.checkpoint):
        wrong.append(f"checkpoint={settings.checkpoint}: must be {CHECKPOINTS}")
    return wrong
