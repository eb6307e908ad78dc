"""Ask a run's recordings from the command line: `python -m attention_maps --help`."""

from __future__ import annotations

import sys

from configs.commands import run_command
from configs.program import exit_code_of

HELP = """Ask the attention maps that a run has recorded.

  python -m attention_maps list runs                    runs, and what they have recorded
  python -m attention_maps heads runs/NAME              what each head does, in numbers
  python -m attention_maps show runs/NAME               a map as a table: each token with what it attends to
  python -m attention_maps show runs/NAME query=win key=I
                                                        'win' attends 'I': 50 %
  python -m attention_maps export runs/NAME to=map.svg  a picture, a table, an alignment, or a page to send to others

`python -m attention_maps show --help` lists the settings of `show`, and so on."""

COMMANDS = {
    "list": ("ask.list", "list_recordings", "ListSettings"),
    "heads": ("ask.heads", "show_heads", "HeadsSettings"),
    "show": ("ask.show", "show", "ShowSettings"),
    "export": ("ask.export", "export", "ExportSettings"),
}
"""Per command its module, function and settings; only the one asked for is imported."""


def guarded(arguments: list[str]) -> int:
    """Run one command -> its exit code: 2 with one line on standard error for each problem that the user can mend."""
    return exit_code_of(lambda: run_command("attention_maps", HELP, COMMANDS, arguments, subject="runs/NAME"))


if __name__ == "__main__":
    raise SystemExit(guarded(sys.argv[1:]))
