"""Exit codes, streams and one-line errors of every program.

Defined in `attention_maps`, which is published without the rest of the project.
"""

from attention_maps.base.program import (
    check_system,
    complain,
    exit_code_of,
    expanded,
    importing,
    messages_of,
    run_guarded,
    silence,
    speak_utf8,
    utf8,
)

__all__ = [
    "check_system",
    "complain",
    "exit_code_of",
    "expanded",
    "importing",
    "messages_of",
    "run_guarded",
    "silence",
    "speak_utf8",
    "utf8",
]
