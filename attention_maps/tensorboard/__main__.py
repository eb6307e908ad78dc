"""TensorBoard with the Attention tab, also where the project is not installed.

    python -m attention_maps.tensorboard --logdir runs

takes every flag of TensorBoard. Where the project is installed, plain `tensorboard --logdir runs` does the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from absl import app, logging
from tensorboard import default, program
from tensorboard.plugins.base_plugin import FlagsError

from attention_maps.tensorboard.plugin import AttentionPlugin

USAGE = "python -m attention_maps.tensorboard --logdir runs"


def main() -> None:
    """Serve until interrupted; exit with 2 and one line where the flags make no sense."""
    logging.set_verbosity(logging.WARNING)  # as the command `tensorboard` does
    # Installed, the tab is among the dynamic plugins already; two of one name stop TensorBoard.
    others = [
        p for p in default.get_dynamic_plugins() if getattr(p, "plugin_name", None) != AttentionPlugin.plugin_name
    ]
    tensorboard = program.TensorBoard([*default.get_static_plugins(), *others, AttentionPlugin])
    app.run(tensorboard.main, flags_parser=lambda arguments: configure(tensorboard, arguments))


def configure(tensorboard: program.TensorBoard, arguments: list[str]) -> list[str]:
    """Give TensorBoard its flags, and return what is left of them; exits with 2 where there is nothing to show."""
    try:
        rest = tensorboard.configure(arguments)
    except FlagsError as problem:
        where_said = any(argument.startswith(("--logdir", "--db", "--grpc")) for argument in arguments)
        fail(str(problem) if where_said else f"where are the runs? {USAGE}")
    logdir = tensorboard.flags.logdir
    if logdir and "://" not in logdir and not Path(os.path.expanduser(logdir)).is_dir():  # noqa: PTH111
        fail(f"there is no folder {logdir}; train a model first (python train.py), or name another: {USAGE}")
    return rest


def fail(problem: str) -> NoReturn:
    """Exit with one line on standard error."""
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
