"""Query the recordings of a run from the command line: `python -m attention_maps --help`."""

from __future__ import annotations

import sys

from attention_maps.base.commands import run_command
from attention_maps.base.program import exit_code_of

HELP = """Query the attention maps recorded by a run.

  python -m attention_maps list runs                    runs and their recordings
  python -m attention_maps heads runs/NAME              measures and label of each head
  python -m attention_maps show runs/NAME               a map as a table: the strongest keys of each token
  python -m attention_maps show runs/NAME query=win key=I
                                                        'win' attends to 'I': 50 %
  python -m attention_maps export runs/NAME to=map.svg  an image, a table, an alignment, or an HTML page

`python -m attention_maps show --help` lists the settings of `show`, and so on."""

COMMANDS = {
    "list": ("command_line.list", "list_recordings", "ListSettings"),
    "heads": ("command_line.heads", "show_heads", "HeadsSettings"),
    "show": ("command_line.show", "show", "ShowSettings"),
    "export": ("command_line.export", "export", "ExportSettings"),
}
"""Module, function and settings of each command; only the module of the requested command is imported."""


def guarded(arguments: list[str]) -> int:
    """Run one command and return its exit code: 2 for user errors, with one line per problem on standard error."""
    return exit_code_of(lambda: run_command("attention_maps", HELP, COMMANDS, arguments, subject="runs/NAME"))


if __name__ == "__main__":
    raise SystemExit(guarded(sys.argv[1:]))
