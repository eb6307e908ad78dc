"""generate.py at a terminal: a conversation in a real pseudo-terminal."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT, environment


class Terminal:
    """A program whose standard input, output and error are a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", control: int) -> None:
        self.process, self.control = process, control

    def type(self, text: str) -> None:
        os.write(self.control, text.encode())

    def read(self, count: int, end: str = "\r\n> ") -> str:
        """Return the next bytes of output; fewer if `end`, by default the next prompt, comes before."""
        return self._read_while(lambda seen: len(seen) < count and end.encode() not in seen)

    def read_until(self, end: str, seconds: float = 60) -> str:
        """Return the output up to and including `end`."""
        return self._read_while(lambda seen: end.encode() not in seen, seconds)

    def _read_while(self, wanted: Callable[[bytes], bool], seconds: float = 60) -> str:
        seen = b""
        deadline = time.monotonic() + seconds
        while wanted(seen):
            ready, _, _ = select.select([self.control], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"nothing more after {seen!r}"
            seen += os.read(self.control, 1)
        return seen.decode(errors="ignore").replace("\r\n", "\n")

    def interrupt(self, seen: str) -> bool:
        """Type Ctrl-C in the middle of a text, of which `seen` was read; returns False, and types nothing, if it has
        ended.

        The program stands still meanwhile: a text could end between the look and the signal, and Ctrl-C at the prompt
        leaves.
        """
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)
        written = seen.encode()
        while select.select([self.control], [], [], 0.2)[0]:
            written += os.read(self.control, 1000)
        going = b"(seed=" not in written
        if going:
            self.type("\x03")
        self.process.send_signal(signal.SIGCONT)
        return going

    def answer(self, prompt: str) -> tuple[str, int]:
        """Type a prompt -> the generated text, prompt included, and the printed seed."""
        self.type(f"{prompt}\n")
        self.read_until(f"{prompt}\r\n")  # the echo
        text = self.read_until("\r\n(seed=").removesuffix("\n(seed=")
        return text, int(self.read_until(")\r\n> ").partition(")")[0])


@contextmanager
def at_a_terminal(folder: Path, *arguments: str, **variables: str) -> Iterator[Terminal]:
    """Return generate.py in a terminal of its own, in which Ctrl-C works."""
    control, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "generate.py"), *arguments],
        cwd=folder,
        env=environment() | {"TERM": "dumb"} | variables,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    try:
        yield Terminal(process, control)
    finally:
        process.kill()
        process.wait()
        os.close(control)


def alone(folder: Path, prompt: str, seed: int) -> str:
    """Return the text that generate.py generates for one prompt."""
    command = [
        sys.executable,
        str(ROOT / "generate.py"),
        "run=runs/gpt",
        "max_tokens=30",
        f"prompt={prompt}",
        f"seed={seed}",
    ]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    return done.stdout.removesuffix("\n")


def test_a_prompt_typed_again_gets_another_text_whose_seed_is_told(trained: Path) -> None:
    """Guards against the same text for a repeated prompt, a text that cannot be reproduced, and a conversation that
    only Ctrl-D can end."""
    with at_a_terminal(trained, "run=runs/gpt", "max_tokens=30") as terminal:
        assert "quit leaves" in terminal.read_until("> ")
        (first, seed), (second, next_seed) = terminal.answer("Emi ran."), terminal.answer("Emi ran.")
        assert first != second
        assert next_seed != seed
        terminal.type("help\n")
        assert "Ctrl-D" in terminal.read_until("> ")
        assert terminal.answer(" quit")[0].startswith("quit")
        terminal.type("quit\n")
        assert terminal.process.wait(60) == 0
    # A terminal shows other line breaks than a pipe if the text contains a carriage return.
    assert second.split() == alone(trained, "Emi ran.", next_seed).split()


def test_a_seed_that_is_given_repeats_a_conversation(trained: Path) -> None:
    """Guards against a conversation that cannot be reproduced, Ctrl-C that ends the whole conversation, and a locale in
    which line editing interprets Japanese as commands."""
    with at_a_terminal(trained, "run=runs/gpt", "max_tokens=1000000", "seed=7", LC_ALL="C") as terminal:
        terminal.read_until("> ")
        for attempt in range(100):  # a short text may end by itself
            terminal.type("これは水。\n")
            terminal.read_until("これは水。\r\nこれは水。")
            begun, seed = terminal.read(200), 7 + attempt
            if "\n> " not in begun and terminal.interrupt(begun):
                break
        terminal.read_until(f"(seed={seed})\r\n> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
    assert begun[:20] in alone(trained, "これは水。", seed)


def test_a_terminal_shows_the_end_of_a_long_prompt(trained: Path) -> None:
    """Guards against a long prompt that is echoed in full before the first new word; a file or a pipe gets the full
    text."""
    prompt = "The dog ran. " * 800
    with at_a_terminal(trained, "run=runs/gpt", "max_tokens=5", f"prompt={prompt}") as terminal:
        shown = terminal.read_until(prompt[-400:])
        assert shown.endswith(f"[… 10,000 characters] {prompt[-400:]}")
        assert len(shown) < 1000
