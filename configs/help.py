"""Format the text of `python train.py --help`."""

from __future__ import annotations

import itertools
import textwrap

from omegaconf import OmegaConf

from configs.compose import CONFIGS, GROUPS, compose_config
from configs.settings import describe

HELP = """Train a small transformer: a GPT that generates text, or an encoder-decoder that translates.

  python train.py                                      a GPT on the stories of the built-in corpus
  python train.py task=translate                       English to Japanese on its sentence pairs
  python train.py data=text data.path=book.txt         a GPT on your own text
  python train.py task=translate data=pairs data.path=talks.en,talks.ja
                                                       a translator on your own sentence pairs
  python train.py +experiment=demo_gpt                 a recipe (listed below)
  python train.py resume=runs/NAME                     resume a run where it stopped
  python train.py resume=runs/NAME/checkpoints/best    resume from a checkpoint; later ones are deleted
  python train.py init_from=runs/NAME data=text …      a new run initialised from existing weights
  python train.py init_from=FOLDER data=text …         fine-tune a GPT-2, Llama or Marian of transformers
  python train.py -m optim.lr=1e-3,3e-4                a sweep: one run per value, ranked at the end
  python train.py --cfg job …                          print the config and exit

Every run has its own folder, runs/NAME. All invalid settings are reported at once, before anything starts. Values are
numbers, text, true, false, null (no value) or a quoted list: attention.probes='["first","second"]'.

Recipes (+experiment=NAME; configs/experiment/NAME.yaml lists the data required, the training time and the results):
{recipes}

Config groups (GROUP=CHOICE; each choice sets several settings):
{choices}

Settings and their defaults:"""


def train_help(schema: type) -> str:
    """Return the text of `--help`, from the comments of the YAML files and the docstrings of `schema`."""
    composed, _ = compose_config("train", schema, [])
    assert composed is not None
    recipes = [listed(name, description("experiment", name)) for name in GROUPS["experiment"]]
    choices = [
        listed(f"{group}={choice}", description(group, choice))
        for group in GROUPS
        for choice in GROUPS[group]
        if group != "experiment"
    ]
    intro = HELP.format(recipes="\n".join(recipes), choices="\n".join(choices))
    return "\n".join([intro, *describe(OmegaConf.to_object(composed))])


def description(group: str, choice: str) -> str:
    """Return the comment at the top of a YAML file, up to its first command."""
    lines = (CONFIGS / group / f"{choice}.yaml").read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("#") and not line.startswith("#   "), lines)
    words = (line.removeprefix("#").strip() for line in comment if "@package" not in line)
    return " ".join(words).removesuffix(":")


def listed(name: str, text: str) -> str:
    """Format one entry of a list: a name and, in the second column, its description."""
    indent = " " * 27
    return textwrap.fill(text, width=120, initial_indent=f"  {name:25s}", subsequent_indent=indent) or f"  {name}"
