"""What generate.py reads: the lines of a file, whatever wrote it, and what is typed at a terminal."""

import io
import sys

import pytest

from training.errors import UserError
from training.generation_input import count_lines, read_lines, typed, up_to_failure


def give(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"\xef\xbb\xbfa\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"a\rb\0c\r", ["a\rb\0c\r"]),
        ("水\u2028と\x85\n".encode(), ["水\u2028と\x85"]),
    ],
)
def test_a_line_is_what_ends_with_a_line_feed(
    content: bytes, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: a byte order mark or Windows' line ends as part of a sentence; `splitlines`, which cuts at rare characters."""
    give(monkeypatch, content)
    assert count_lines() == len(lines)
    assert list(read_lines()) == lines


def test_lines_before_one_that_is_not_utf8_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: a thousand good lines lost to a bad one; a message that does not say where."""
    give(monkeypatch, b"fine\nbad \xff\nfine\n")
    failures: list[UserError] = []
    assert list(up_to_failure(read_lines(), failures)) == ["fine"]
    assert str(failures[0]).startswith("standard input: line 2 is not UTF-8 (its byte 5)")


@pytest.mark.parametrize("end", ["quit\nnever read", "exit\nnever read", ""])
def test_words_that_leave_or_help_are_not_input(
    end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards: `quit` continued as a story; no way to translate the word "exit"; other lines changed."""
    give(monkeypatch, f"Emi ran.\nhelp\n exit\nhelp me\n  x\n\nQuit\n{end}".encode())
    assert list(typed("translate")) == ["Emi ran.", "exit", "help me", "  x", "", "Quit"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("Ctrl-D") == 1
