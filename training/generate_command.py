"""What `python generate.py …` does with its arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from training.command_line import compose_config, describe_settings, fail, run_guarded
from training.errors import UserError
from training.generation_config import GenerateConfig, problems

VERBATIM = ("prompt", "stop")
"""Settings that Hydra's override grammar never sees: any text that a shell can pass arrives as it was typed."""

HELP = """Write with a GPT run, or translate with a translation run.

  python generate.py run=runs/NAME prompt='Once upon a time'   the prompt is taken verbatim, quotes, commas and all
  python generate.py run=runs/NAME < english.txt               a translation for each line, in order; a GPT goes on with the text
  python generate.py run=runs/NAME                             interactive when standard input is a terminal

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
    settings = []
    for argument in arguments:
        key, separator, text = argument.partition("=")
        if separator and key in VERBATIM:
            verbatim[key].append(text)
        else:
            settings.append(argument)
    composed, _, found = compose_config("generate", GenerateConfig, settings)
    if len(verbatim["prompt"]) > 1:
        found.append("prompt= is given twice; several prompts go through standard input, one a line")
    if composed is None:
        fail(found)
    config = OmegaConf.to_object(composed)
    assert isinstance(config, GenerateConfig)
    config.prompt = verbatim["prompt"][0] if verbatim["prompt"] else None
    config.stop = verbatim["stop"]
    found += problems(config, None, set())
    if found:
        fail(found)
    return Command(config, {argument.partition("=")[0] for argument in arguments})


def generate_command() -> None:
    """Run `generate.py`."""
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        run_guarded(lambda: print(HELP, *describe_settings(GenerateConfig, GenerateConfig()), sep="\n"))
        return
    command = parse_command(arguments)
    run_guarded(lambda: execute(command))


def execute(command: Command) -> None:
    """Load the run and hand every input to it."""
    from training import generation, run_folder
    from training.hardware import choose_hardware

    config = command.config
    run = Path(str(config.run))
    task = run_folder.load_config(run).task
    if found := problems(config, task, command.given):
        fail(found)
    loaded = run_folder.load_run(run, config.checkpoint)
    from training.config import TrainerConfig

    device = choose_hardware(TrainerConfig(device=config.device, precision="float32")).device
    loaded.model.to(device)
    handle = generation.write if task == "gpt" else generation.translate_lines
    if config.prompt is not None:
        handle(loaded, config, config.prompt)
    elif sys.stdin.isatty():
        for line in ask(task):
            handle(loaded, config, line)
    else:
        handle(loaded, config, read_input())


def read_input() -> str:
    """All of standard input as UTF-8, without the final line break."""
    raw = sys.stdin.buffer.read()
    try:
        return raw.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UserError(
            f"standard input is not UTF-8: line {line}, byte {error.start}; convert it first (iconv -t UTF-8)"
        ) from error


def ask(task: str) -> Iterator[str]:
    """Lines typed at a prompt, until end of input."""
    import readline  # noqa: F401  (line editing and history for input())

    print(
        "Type the beginning of a text." if task == "gpt" else "Type a sentence to translate.",
        "Ctrl-D ends.",
        file=sys.stderr,
    )
    while True:
        try:
            yield input("> ")
        except EOFError:
            print(file=sys.stderr)
            return
