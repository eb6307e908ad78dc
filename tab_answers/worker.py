"""Answer questions about trained runs: `python -m tab_answers.worker`, one JSON question per line of standard input.

Each answer is one line of JSON on standard output: {"ok": …} or {"error": "one sentence"}; nothing else is ever written
there. The process ends at the end of its input, or when the process that started it ends. Its two optional arguments
are a temporary folder, which it then deletes, and the largest size of its memory in bytes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

LONGEST_MESSAGE = 600
"""Characters of an error message."""
WATCH = 0.5
"""Seconds between checks whether the parent process still exists."""
SPARE = 2**24
"""Bytes that can be allocated unless the memory is used up."""


def main(arguments: list[str]) -> None:
    """Answer the questions on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints does not get among the answers
    sys.stdout = sys.stderr
    folder = arguments[0] if arguments else ""

    def leave() -> None:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    if folder:  # started by another process
        threading.Thread(target=watch, args=(os.getppid(), leave), daemon=True).start()
    if len(arguments) > 1:
        limit_memory(int(arguments[1]))
    try:
        with suppress(BrokenPipeError, KeyboardInterrupt):
            serve(sys.stdin, answers)
    except BaseException:  # a package is missing, or there is too little memory to import it; earlier answers stay
        traceback.print_exc()
        os._exit(1)
    leave()
    os._exit(0)  # without waiting for the threads of a library


def watch(parent: int, leave: Callable[[], None]) -> None:
    """End this process once its parent has ended: a long computation does not notice the end of its input."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    leave()
    os._exit(0)


def limit_memory(most: int) -> None:
    """Make allocations beyond `most` bytes fail. The limit counts writable private memory only: torch reserves far more
    address space than it uses. Without effect where the system does not count it (macOS)."""
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def memory_is_used_up() -> bool:
    """Whether even a small allocation fails. Where one fails inside a library, the library may call it something else:
    a damaged tokenizer, a SystemError."""
    try:
        bytearray(SPARE)
    except MemoryError:
        return True
    return False


def serve(questions: TextIO, answers: TextIO) -> None:
    """Answer each line of `questions` by a line of `answers`."""
    reply = replier()
    for line in questions:
        if line.strip():
            answers.write(json.dumps(reply(line), separators=(",", ":")) + "\n")
            answers.flush()


def replier() -> Callable[[str], dict[str, Any]]:
    """Return the function that answers one line. The models are imported here, which takes a second."""
    from configs.errors import UserError
    from configs.program import messages_of
    from tab_answers.answer import answer
    from tab_answers.circuits import circuits_of
    from tab_answers.head_effects import effects_of
    from tab_answers.model_cache import Models
    from tab_answers.question import CircuitQuestion, EffectsQuestion, read_question
    from training.hardware.out_of_memory import is_out_of_memory

    models = Models()

    def reply(line: str) -> dict[str, Any]:
        try:
            question = read_question(line)
            if isinstance(question, CircuitQuestion):
                return {"ok": circuits_of(question, models)}
            if isinstance(question, EffectsQuestion):
                return {"ok": effects_of(question, models)}
            return {"ok": answer(question, models)}
        except Exception as error:
            if isinstance(error, MemoryError) or is_out_of_memory(error) or memory_is_used_up():
                models.forget()
                return {"error": "the question needs more memory than it may use: ask a shorter text"}
            if isinstance(error, UserError | OSError):
                return {"error": one_sentence("; ".join(messages_of(error)))}
            traceback.print_exc()
            return {"error": one_sentence(f"the question failed: {type(error).__name__}: {error}")}

    return reply


def one_sentence(message: str) -> str:
    """Return a message on one line, without the middle of a long one."""
    line = " ".join(message.split())
    half = LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} … {line[-half:]}"


if __name__ == "__main__":
    main(sys.argv[1:])
