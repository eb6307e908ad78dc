"""Command lines of `train.py`, `generate.py` and `python -m attention_maps`, up to the point where work begins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from hypothesis import strategies as st

from attention_maps.__main__ import COMMANDS as TABLE
from attention_maps.__main__ import HELP
from configs.commands import run_command
from configs.compose import GROUPS, all_keys
from generation.command_line import generate_help, parse_command
from generation.config import GenerateConfig
from tests.robustness.fuzz.values import texts
from training.command_line import requested_runs
from training.config import TrainConfig

TRAIN_KEYS = (*all_keys(TrainConfig), *GROUPS, "experiment", "debug")
GENERATE_KEYS = tuple(all_keys(GenerateConfig))
MAPS_KEYS = ("step", "sample", "kind", "layer", "head", "query", "key", "what", "to", "top", "rows", "columns", "run")
FOREIGN = """
_target_ hydra hydra.searchpath hydra/launcher hydra.run.dir defaults data._target_ a.b.c data.path.x model. .model
.. seed.x data@x data@_global_ 注目 model.layers[0]
""".split()
FOREIGN += ["", " "]
FLAGS = """
-m --multirun --cfg -c job hydra all --resolve --package -p --info -i searchpath --config-dir --config-dir=/tmp -cd
--config-path=/ --config-name=x -cn --version --run -r --hydra-help --help -h --shell-completion -sc
--experimental-rerun -- - --x model
""".split()
COMMANDS = ("list", "heads", "show", "export", "", "--help", "delete", "show\n", "../x")

for module, *_ in TABLE.values():  # once here, not in every child
    import_module(f"attention_maps.{module}")


@dataclass(frozen=True)
class CommandLine:
    """A program and its arguments."""

    program: str
    arguments: tuple[str, ...]

    def prepare(self, folder: Path) -> None:
        """Write the files that some settings name."""
        (folder / "book.txt").write_text("a small book\n" * 20, "utf-8")
        (folder / "folder").mkdir()
        (folder / "loop").symlink_to("loop")

    def act(self) -> None:
        """Compose the config, as the program does before any work."""
        sys.argv = [f"{self.program}.py", *self.arguments]
        if self.program == "train":
            requested_runs(sys.argv[1:])
        elif self.program == "generate":
            if {"--help", "-h"} & set(self.arguments):
                print(generate_help())
            else:
                parse_command(list(self.arguments))
        else:
            run_command("attention_maps", HELP, TABLE, self.arguments, subject="runs/NAME")


def _settings(keys: tuple[str, ...]) -> st.SearchStrategy[str]:
    key = st.sampled_from(keys) | st.sampled_from(FOREIGN)
    prefix = st.sampled_from(("", "", "", "", "", "+", "++", "~", "-", " "))
    return st.builds("{}{}={}".format, prefix, key, texts) | st.sampled_from(FLAGS) | texts


def cases() -> st.SearchStrategy[CommandLine]:
    """Return command lines with a few settings each."""
    train = st.lists(_settings(TRAIN_KEYS), min_size=1, max_size=5)
    generate = st.lists(_settings(GENERATE_KEYS), min_size=1, max_size=5)
    maps = st.builds(
        lambda command, run, rest: [command, run, *rest],
        st.sampled_from(COMMANDS),
        st.sampled_from(("runs", ".", "runs/none", "/", "~x", "loop", "")) | texts,
        st.lists(_settings(MAPS_KEYS), max_size=3),
    )
    lines = (("train", train), ("generate", generate), ("attention_maps", maps))
    return st.one_of(*(st.builds(CommandLine, st.just(program), rest.map(tuple)) for program, rest in lines))
