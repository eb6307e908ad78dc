"""What `python train.py --help` says."""

from __future__ import annotations

import textwrap

from omegaconf import OmegaConf

from configs.compose import CONFIGS, GROUPS, compose_config
from configs.settings import describe

HELP = """Train a small transformer: a GPT that writes, or an encoder-decoder that translates.

  python train.py                                      a GPT on the stories of the embedded corpus
  python train.py task=translate                       English to Japanese on its sentences
  python train.py data=text data.path=book.txt         a GPT on your own text
  python train.py task=translate data=pairs data.path=talks.en,talks.ja
                                                       a translator on your own sentence pairs
  python train.py +experiment=demo_gpt                 a recipe, see below
  python train.py resume=runs/NAME                     go on with a run where it stopped
  python train.py resume=runs/NAME/checkpoints/best    go back to a checkpoint; what came after it is dropped
  python train.py init_from=runs/NAME data=text …      a new run from the weights of another
  python train.py -m optim.lr=1e-3,3e-4                a sweep: a run for each value, ranked at the end
  python train.py --cfg job …                          print the config and stop

A run is a folder, runs/NAME. Mistakes are reported, all at once, before anything starts. Values are numbers, text,
true, false, null (nothing), or a list in quotes: attention.probes='["first","second"]'.

Recipes (+experiment=NAME; configs/experiment/NAME.yaml says what data it needs, how long it takes, what it reaches):
{recipes}

Choices, each of which sets several settings:
{choices}

Settings, each with its default:"""


def train_help(schema: type) -> str:
    """Every recipe, choice and setting, as the YAML files and the docstrings of `schema` describe them."""
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
    """The comment at the head of a YAML file, as far as its first command."""
    said = []
    for line in (CONFIGS / group / f"{choice}.yaml").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#") or line.startswith("#   "):
            break
        said += [line.removeprefix("#").strip()] if "@package" not in line else []
    return " ".join(said).removesuffix(":")


def listed(name: str, said: str) -> str:
    """A name, and its description of it in a column of its own."""
    return (
        textwrap.fill(said, width=120, initial_indent=f"  {name:25s}", subsequent_indent=" " * 27)
        if said
        else f"  {name}"
    )
