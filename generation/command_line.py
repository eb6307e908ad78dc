"""Parse the command line of `generate.py` into a checked config, without waiting for the import of torch."""

from __future__ import annotations

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.compose import compose_config
from configs.errors import UserError
from configs.program import utf8
from configs.settings import describe
from generation.config import GenerateConfig, problems

VERBATIM = ("run", "prompt", "stop")
"""Settings that bypass Hydra's override grammar: any text is kept exactly as typed."""

HELP = """Generate text with a GPT run, or translate with a translation run.

  python generate.py run=runs/demo_gpt prompt='Emi had a small dog.'  the prompt is used verbatim
  python generate.py run=runs/demo_enja < english.txt > japanese.txt  line by line, in order, written as soon as ready
  python generate.py run=runs/demo_gpt < beginning.txt                the whole file is one prompt
  python generate.py run=runs/NAME                                    interactive if standard input is a terminal

Generated texts and translations go to standard output, notes and progress to standard error.

Settings (key=value):"""


def generate_help() -> str:
    """Return the text of `--help`: usage and all settings."""
    return "\n".join([HELP, *describe(GenerateConfig())])


def parse_command(arguments: list[str]) -> tuple[GenerateConfig, set[str]]:
    """Parse arguments -> (config, keys set on the command line). Raises UserError with all problems."""
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
    composed, wrong = compose_config("generate", GenerateConfig, settings, groups_apply=False)
    if words:
        wrong.append(f"{' '.join(words)}: not understood; pass text to continue or translate as prompt='…'")
    if len(verbatim["run"]) > 1:
        wrong.append("run= is given twice")
    if len(verbatim["prompt"]) > 1:
        wrong.append("prompt= is given twice: quote the whole text; lines to translate can come on standard input")
    if composed is None:
        raise UserError(*wrong)
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:  # an interpolation of an unknown key, or ???
        raise UserError(*wrong, f"{error.full_key}: {str(error).strip().splitlines()[0]}") from error
    assert isinstance(config, GenerateConfig)
    config.run = next(iter(verbatim["run"]), None)
    config.prompt = next(map(utf8, verbatim["prompt"]), None)
    config.stop = [utf8(text) for text in verbatim["stop"]]
    if wrong := wrong + problems(config):
        raise UserError(*wrong)
    return config, {argument.partition("=")[0] for argument in arguments}
