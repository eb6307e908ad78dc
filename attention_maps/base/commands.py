"""Run programs with subcommands, `python -m PACKAGE COMMAND key=value …`, with uniform help and error messages."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Mapping, Sequence

from attention_maps.base.errors import UserError
from attention_maps.base.program import importing
from attention_maps.base.settings import describe, read_settings

PUBLISHED = "attention_maps"
"""The package of the wheel; the others are used from a clone."""

Commands = Mapping[str, tuple[str, str, str]]
"""For each command: its module within the package, its function, and the dataclass of its settings."""


def run_command(package: str, intro: str, commands: Commands, arguments: Sequence[str], subject: str = "") -> None:
    """Run the command named by the arguments, or print help. Imports only the module of that command.

    The function is called with its settings. If there is a `subject`, such as `runs/NAME`, every command expects it
    before the settings, and its function is called with (subject, settings, problems), to which it adds its own
    problems. Raises UserError.
    """
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(intro)
        return
    command, *rest = arguments
    if command not in commands:
        raise UserError(f"{command}: no such command; there are {', '.join(commands)}")
    module, name, schema_name = commands[command]
    try:
        with importing():
            imported = importlib.import_module(f"{package}.{module}")
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == package:
            raise
        install = "pip install chumoku (in a clone: make install)" if package == PUBLISHED else "make install"
        raise UserError(f"{missing.name} is not installed, which python -m {package} needs: {install}") from None
    function, schema = getattr(imported, name), getattr(imported, schema_name)
    usage = " ".join(filter(None, ("python -m", package, command, subject)))
    if {"--help", "-h"} & set(rest):
        settings = describe(schema(), none="")
        summary = " ".join(str(inspect.getdoc(function)).partition("\n\n")[0].split())
        print(textwrap.fill(summary, 120), "", f"  {usage}" + " key=value …" * bool(settings), sep="\n")
        if settings:
            print("", "Settings (key=value):", *settings, sep="\n")
    elif not subject:
        settings, problems = read_settings(schema, rest)
        if problems:
            raise UserError(*problems)
        function(settings)
    elif not rest or rest[0].startswith("-"):
        raise UserError(f"{command}: which run? {usage}")
    else:
        function(rest[0], *read_settings(schema, rest[1:]))
