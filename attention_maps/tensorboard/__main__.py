"""Start TensorBoard with the Attention tab, even if the project is not installed.

    python -m attention_maps.tensorboard --logdir runs

accepts every flag of TensorBoard. If the project is installed, `tensorboard --logdir runs` does the same.
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
    """Serve until interrupted; exit with code 2 and a one-line message if the flags are invalid."""
    logging.set_verbosity(logging.WARNING)  # as the command `tensorboard` does
    # If the project is installed, the tab is already a dynamic plugin; TensorBoard rejects duplicate names.
    others = [
        p for p in default.get_dynamic_plugins() if getattr(p, "plugin_name", None) != AttentionPlugin.plugin_name
    ]
    tensorboard = program.TensorBoard([*default.get_static_plugins(), *others, AttentionPlugin])
    app.run(tensorboard.main, flags_parser=lambda arguments: configure(tensorboard, arguments))


def configure(tensorboard: program.TensorBoard, arguments: list[str]) -> list[str]:
    """Pass the flags to TensorBoard and return the remaining ones; exit with code 2 if there is no log directory."""
    try:
        rest = tensorboard.configure(arguments)
    except FlagsError as problem:
        where_said = any(argument.startswith(("--logdir", "--db", "--grpc")) for argument in arguments)
        fail(str(problem) if where_said else f"--logdir is required: {USAGE}")
    logdir = tensorboard.flags.logdir
    if logdir and "://" not in logdir and not Path(os.path.expanduser(logdir)).is_dir():  # noqa: PTH111
        fail(f"there is no folder {logdir}; train a model first (python train.py), or use another folder: {USAGE}")
    return rest


def fail(problem: str) -> NoReturn:
    """Exit with code 2 and a one-line message on standard error."""
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
