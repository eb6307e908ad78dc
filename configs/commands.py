"""Programs with subcommands.

Defined in `attention_maps`, which is published without the rest of the project.
"""

from attention_maps.base.commands import run_command

__all__ = ["run_command"]
