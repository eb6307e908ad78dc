"""Ask a run's recordings from the command line: `python -m attention_maps --help`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from configs.program import exit_code_of, importing
from configs.settings import CommandError, describe, parse

HELP = """Ask the attention maps that a run has recorded.

  python -m attention_maps list runs                    runs, and what they have recorded
  python -m attention_maps heads runs/NAME              what each head does, in numbers
  python -m attention_maps show runs/NAME               a map as a table: each token with what it attends to
  python -m attention_maps show runs/NAME query=win key=I
                                                        'win' attends 'I': 50 %
  python -m attention_maps export runs/NAME to=map.svg  a picture, a table, an alignment, or a page to send to others

`python -m attention_maps show --help` lists the settings of `show`, and so on."""

COMMANDS = {
    "list": ("ask.catalogue", "list_recordings", "ListSettings"),
    "heads": ("ask.catalogue", "show_heads", "HeadsSettings"),
    "show": ("ask.show", "show", "ShowSettings"),
    "export": ("ask.export", "export", "ExportSettings"),
}
"""Per command its module, function and settings; only the one asked for is imported."""


def main(arguments: list[str]) -> None:
    """Run one command. Raises CommandError."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(HELP)
        return
    command, *rest = arguments
    if command not in COMMANDS:
        raise CommandError(f"{command}: no such command; there are {', '.join(COMMANDS)}")
    module, name, settings_name = COMMANDS[command]
    with importing():
        found = importlib.import_module(f"attention_maps.{module}")
    function, schema = getattr(found, name), getattr(found, settings_name)
    if "--help" in rest or "-h" in rest:
        print("\n".join(_help(command, function, schema)))
        return
    if not rest or rest[0].startswith("-"):
        raise CommandError(f"{command}: which run? python -m attention_maps {command} runs/NAME")
    settings, problems = parse(schema, rest[1:])
    function(rest[0], settings, problems)


def _help(command: str, function: Any, schema: type) -> list[str]:
    settings = describe(schema)
    heading = str(function.__doc__).partition("\n")[0]
    usage = f"  python -m attention_maps {command} runs/NAME" + " key=value …" * bool(settings)
    return [heading, "", usage, *(["", "Settings (key=value):", *settings] if settings else [])]


def guarded(arguments: list[str]) -> int:
    """`main` with its exit code: what can be mended is one line on standard error for each problem, and code 2."""
    return exit_code_of(lambda: main(arguments), CommandError)


if __name__ == "__main__":
    raise SystemExit(guarded(sys.argv[1:]))
