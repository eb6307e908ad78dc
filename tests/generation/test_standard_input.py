"""Inputs of generate.py: lines of files in different formats, and lines typed at a terminal."""

import contextlib
import gzip
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from configs.errors import UserError
from generation.standard_input import count_lines, read_lines, typed, up_to_failure


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Use a file as standard input."""
    file = tmp_path / "input"

    def given(content: bytes) -> None:
        file.write_bytes(content)
        monkeypatch.setattr(sys, "stdin", opened.enter_context(file.open(encoding="utf-8")))

    with contextlib.ExitStack() as opened:
        yield given


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"\xef\xbb\xbfa\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"a\rb\x01c\r", ["a\rb\x01c\r"]),
        (b"a\n" + b"x" * 1_000_000 + b"\nb\n" + b"y" * 300_000, ["a", "x" * 1_000_000, "b", "y" * 300_000]),
        ("水\u2028と\x85\n".encode(), ["水\u2028と\x85"]),
    ],
)
def test_a_line_is_what_ends_with_a_line_feed(content: bytes, lines: list[str], give: Callable[[bytes], None]) -> None:
    """Guards against a byte order mark or CR LF as part of a sentence, and against `splitlines`, which splits at
    rare characters."""
    give(content)
    assert count_lines() == len(lines)
    assert list(read_lines()) == lines


def test_lines_before_one_that_is_not_utf8_are_read(give: Callable[[bytes], None]) -> None:
    """Guards against a thousand good lines lost to a bad one, and an error without the line number."""
    give(b"fine\nbad \xff\nfine\n")
    failures: list[UserError] = []
    assert list(up_to_failure(read_lines(), failures)) == ["fine"]
    assert str(failures[0]).startswith("standard input: line 2 is not UTF-8 (its byte 5)")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("plain English text.\n".encode("utf-16-le"), "line 1 has characters .* looks like utf-16-le .*iconv"),
        ("今日は天気がいい。\n".encode("iso2022_jp"), "line 1 has characters .* looks like iso2022_jp"),
        (b"two \0 words\n", "line 1 has characters that no text has; is it a binary file"),
        (gzip.compress(b"text\n", mtime=0), r"is compressed \(gzip\); pass the text: zcat FILE \| python generate.py"),
        (b"%PDF-1.4\nx", "is a PDF document; .*pdftotext FILE"),
        (b"PK\x03\x04\0\0", "is a zip file or an Office document"),
    ],
)
def test_input_that_is_no_text_is_named(content: bytes, message: str, give: Callable[[bytes], None]) -> None:
    """Guards against NUL characters in a prompt, and advice about encodings where a file is compressed."""
    give(content)
    with pytest.raises(UserError, match=f"^standard input:? {message}"):
        list(read_lines())


@pytest.mark.parametrize("end", ["quit\nnever read", "exit\nnever read", ""])
def test_words_that_leave_or_help_are_not_input(
    end: str, give: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against `quit` continued as a story, no way to translate the word "exit", and changes of other lines."""
    give(f"Emi ran.\nhelp\n exit\nhelp me\n  x\n\nQuit\n{end}".encode())
    assert list(typed("translate")) == ["Emi ran.", "exit", "help me", "  x", "", "Quit"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("Ctrl-D") == 1


def test_a_pause_is_told_before_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against lines held back until others arrive, and an incomplete line taken for a whole one."""
    read, write = os.pipe()
    with open(read) as stdin, open(write, "wb", buffering=0) as writer:  # noqa: PTH123 - of file descriptors
        monkeypatch.setattr(sys, "stdin", stdin)
        lines = read_lines()
        assert next(lines) is None
        writer.write("a\n\nb\n半".encode()[:-1])
        assert [next(lines) for _ in range(4)] == ["a", "", "b", None]
        writer.write("半".encode()[-1:])
        assert next(lines) is None
        writer.write(b"\n" + b"c\n" * 1000)
        assert [next(lines) for _ in range(1002)] == ["半", *["c"] * 1000, None]
        writer.close()
        assert list(lines) in ([], [None])


def test_input_that_cannot_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against mistaking a pause for the end of a text if another program has made the pipe non-blocking."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    with open(read) as stdin, open(write, "wb", buffering=0) as writer:  # noqa: PTH123 - of file descriptors
        monkeypatch.setattr(sys, "stdin", stdin)
        lines = read_lines()
        writer.write(b"a\n")
        assert [next(lines), next(lines)] == ["a", None]
        with ThreadPoolExecutor(1) as other:
            waited_for = other.submit(next, lines)
            with pytest.raises(TimeoutError):
                waited_for.result(timeout=0.2)
            writer.write(b"b\n")
            assert waited_for.result() == "b"


def test_input_that_is_open_for_writing_alone_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a bare "Bad file descriptor" from counting lines before they are read."""
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file.buffer))
        assert count_lines() is None
        with pytest.raises(UserError, match="standard input cannot be read"):
            list(read_lines())
