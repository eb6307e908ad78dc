"""What `python generate.py …` does with its arguments."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.compose import compose_config
from configs.errors import UserError
from configs.program import importing, run_guarded, utf8
from configs.settings import describe
from training.generation_config import GenerateConfig, problems

VERBATIM = ("run", "prompt", "stop")
"""Settings that Hydra's override grammar never sees: any text that a shell can pass arrives as it was typed."""

HELP = """Write with a GPT run, or translate with a translation run.

  python generate.py run=runs/demo_gpt prompt='Emi had a small dog.'  the prompt is taken verbatim
  python generate.py run=runs/demo_enja < english.txt > japanese.txt  line by line, in order, as it gets ready
  python generate.py run=runs/demo_gpt < beginning.txt            a GPT goes on with the whole text
  python generate.py run=runs/NAME                                interactive when standard input is a terminal

What is written goes to standard output, notes and progress to standard error.

Settings (key=value):"""


@dataclass(frozen=True)
class Command:
    """The parsed command line."""

    config: GenerateConfig
    given: set[str]
    """Keys that the user wrote."""


def parse_command(arguments: list[str]) -> Command:
    """Split off the verbatim settings, let Hydra compose the rest, report all problems at once."""
    verbatim: dict[str, list[str]] = {key: [] for key in VERBATIM}
    settings, words = [], []
    for argument in arguments:
        key, separator, text = argument.partition("=")
        if separator and key in VERBATIM:
            verbatim[key].append(text)
        elif separator or argument.startswith(("-", "~")):
            settings.append(argument)
        else:
            words.append(argument)
    composed, found = compose_config("generate", GenerateConfig, settings, groups_apply=False)
    if words:
        found.append(f"{' '.join(words)}: not understood; a text to go on with or to translate is written prompt='…'")
    if len(verbatim["run"]) > 1:
        found.append("run= is given twice")
    if len(verbatim["prompt"]) > 1:
        found.append(
            "prompt= is given twice: one text is wanted (quote it whole); a translator takes many lines on standard"
            " input"
        )
    if composed is None:
        raise UserError(*found)
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:  # an interpolation that leads nowhere, a value that is missing
        raise UserError(*found, f"{error.full_key}: {str(error).strip().splitlines()[0]}") from error
    assert isinstance(config, GenerateConfig)
    config.run = next(iter(verbatim["run"]), None)
    config.prompt = next(map(utf8, verbatim["prompt"]), None)
    config.stop = [utf8(text) for text in verbatim["stop"]]
    found += problems(config, None, set())
    if found:
        raise UserError(*found)
    return Command(config, {argument.partition("=")[0] for argument in arguments})


def generate_command() -> None:
    """Run `generate.py`."""
    arguments = sys.argv[1:]
    asked_for_help = "--help" in arguments or "-h" in arguments
    run_guarded(print_help if asked_for_help else lambda: load_and_generate(arguments))


def print_help() -> None:
    """What the program does, and every setting."""
    print(HELP, *describe(GenerateConfig()), sep="\n")


def load_and_generate(arguments: list[str]) -> None:
    """Check the arguments, then load the run and use it."""
    command = parse_command(arguments)
    # The one late import: torch takes a second or more, and neither --help nor a mistyped setting should wait for it.
    with importing():
        from training.generation import execute

    execute(command.config, command.given)
