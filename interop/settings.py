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
  python export.py run=runs/NAME to=FILE.html format=page        the Attention tab with the model, in one file

The folder or file is new and complete, or not written at all. A model that the other program cannot compute exactly is
refused.

Settings (key=value):"""


@dataclass
class ExportSettings:
    """Export a trained run."""

    run: str | None = None
    """A run folder, runs/NAME, or one of its checkpoints, runs/NAME/checkpoints/step-00000500. format=page: also
    several, separated by commas."""

    to: str | None = None
    """The folder to write, or the file NAME.html of format=page, which must not exist yet."""

    format: Literal["huggingface", "ctranslate2", "gguf", "page"] = "huggingface"
    """`huggingface`: a folder for `from_pretrained` of transformers. `ctranslate2`: a folder for CTranslate2.
    `gguf`: a file for llama.cpp and Ollama. `page`: one HTML file that shows the Attention tab and runs the model in
    the browser, without a server or a network."""

    checkpoint: str = "best"
    """`best` (lowest validation loss), `last`, or the name of a step, step-00000500."""

    checkpoints: int = 1
    """page: number of kept checkpoints in the page, evenly spaced, of which `checkpoint` is one."""

    steps: int = 3
    """page: number of recorded steps in the page, evenly spaced, of which the last is one."""

    weights: Literal["f16", "bf16"] = "f16"
    """page: number format of the weights, two bytes each; the browser computes in float32."""

    title: str | None = None
    """page: the title; null uses those of the runs, `title=` of train.py or their names."""

    licence: str | None = None
    """page: the licence of the page, with its weights and texts, such as `CC BY 4.0`; null uses those of the runs."""

    overwrite: bool = False
    """page: replace the file if it exists."""


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
    if settings.format == "page":
        for key in ("checkpoints", "steps"):
            if getattr(settings, key) < 1:
                wrong.append(f"{key}={getattr(settings, key)}: must be at least 1")
        if settings.to and not settings.to.lower().endswith((".html", ".htm")):
            wrong.append(f"to={settings.to}: a page is one file, whose name ends with .html")
    else:
        plain = ExportSettings()
        wrong += [
            f"{key}={getattr(settings, key)}: only for format=page"
            for key in ("checkpoints", "steps", "weights", "title", "licence", "overwrite")
            if getattr(settings, key) != getattr(plain, key)
        ]
    if not is_checkpoint(settings.checkpoint):
        wrong.append(f"checkpoint={settings.checkpoint}: must be {CHECKPOINTS}")
    return wrong
