"""Two subtitle files are pairs of what is shown at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from data.config import DataConfig
from data.errors import DataError
from tests.data.conftest import all_pairs, load_rows, write

Config = Callable[..., DataConfig]


def clock(seconds: float, point: str = ",") -> str:
    """Return a time as subtitle files write it."""
    return f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{seconds % 60:06.3f}".replace(".", point)


def srt(cues: list[tuple[float, float, str]]) -> str:
    """Return a SubRip file."""
    return "".join(f"{n}\n{clock(a)} --> {clock(b)}\n{text}\n\n" for n, (a, b, text) in enumerate(cues, 1))


def both(config: Config, source: Path, target: Path, **more: object) -> list[tuple[str, str]]:
    """Return all pairs."""
    result = config(f"{source},{target}", **more)
    return all_pairs(result)


def test_cues_are_matched_by_their_times(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against pairs of numbers and time codes, and against cues that are matched by their order."""
    english = [(3.0 * n, 3.0 * n + 2, f"line {n}") for n in range(40)]
    japanese = [(start + 0.3, end + 0.2, text.replace("line", "行")) for start, end, text in english]
    del japanese[5]  # not translated
    japanese[9:11] = [(japanese[9][0], japanese[10][1], "行 10 と 11")]  # one cue for two
    japanese.append((1000, 1001, "翻訳: 誰か"))
    expected = [(f"line {n}", f"行 {n}") for n in range(40) if n not in (5, 10, 11)]
    expected.insert(9, ("line 10 line 11", "行 10 と 11"))
    source, target = write(tmp_path / "a.en.srt", srt(english)), write(tmp_path / "a.ja.srt", srt(japanese))
    assert both(pairs_config, source, target) == expected
    assert both(pairs_config, target, source) == [(b, a) for a, b in expected]


def test_marks_and_times_of_webvtt_are_no_text(tmp_path: Path, pairs_config: Config) -> None:
    """Guards italics, positions, entities, notes, names of cues (also where no blank line precedes them), and files
    with other line ends and encodings."""
    times = [
        (f"{clock(2 * n)} --> {clock(2 * n + 1)}", f"00:{2 * n:02}.000 --> 00:{2 * n + 1:02}.000") for n in range(25)
    ]
    source = "\ufeff" + "".join(
        f"{n}\r\n{a}\r\n{{\\an8}}<i>Café {n}</i>\r\n- yes\r\n\r\n" for n, (a, _) in enumerate(times)
    )
    target = "WEBVTT\n\nNOTE made by hand\n\n" + "".join(
        f"{n if n % 2 else 'intro'}\n{b} align:start\n<v Bob>Kaffee &amp; {n}\n" + "\n" * (n % 2)
        for n, (_, b) in enumerate(times)
    )
    files = write(tmp_path / "a.fr.srt", source.encode("utf-16")), write(tmp_path / "a.de.vtt", target)
    result = both(pairs_config, *files)
    assert result[2] == ("Café 2 - yes", "Kaffee & 2")
    assert len(result) == 25


@pytest.mark.parametrize(
    ("task", "path", "message"),
    [
        ("gpt", "a.srt", r"a.srt: is subtitles; two such files are pairs .*for running text: grep -v"),
        (
            "translate",
            "a.srt",
            r"a.srt: is a file of subtitles; pairs need two, source and target: data.path=a.en.srt,",
        ),
        ("gpt", "a.ass", r"a.ass: is subtitles of a format that is not read; convert them: ffmpeg -i a.ass a.srt"),
        ("translate", "a.srt,late.srt", r"only 0 of 30 and 30 cues are shown at the same time"),
        ("translate", "a.srt,empty.srt", r"empty.srt: has no cues \(lines like"),
    ],
)
def test_subtitles_that_are_no_pairs_are_refused_with_the_way_on(
    tmp_path: Path, pairs_config: Config, text_config: Config, task: str, path: str, message: str
) -> None:
    """Guards against training on time codes, and on files of different cuts."""
    write(tmp_path / "a.srt", srt([(2.0 * n, 2 * n + 1.0, f"line {n}") for n in range(30)]))
    write(tmp_path / "late.srt", srt([(2 * n + 600.0, 2 * n + 601.0, f"行 {n}") for n in range(30)]))
    write(tmp_path / "empty.srt", "no times\n")
    write(tmp_path / "a.ass", "[Script Info]\n")
    config = text_config if task == "gpt" else pairs_config
    with pytest.raises(DataError, match=message):
        load_rows(config(",".join(f"{tmp_path}/{name}" for name in path.split(","))), task)


def test_unclosed_markup_takes_linear_time(tmp_path: Path, pairs_config: Config) -> None:
    """Guards against a line of a megabyte that takes minutes: the time grew with the square of the unclosed marks."""
    cues = [(2.0 * n, 2 * n + 1.0, f"line {n}") for n in range(30)]
    hostile = [(60.0, 61.0, "<" * 300_000 + "{\\" * 300_000)]
    source, target = write(tmp_path / "a.srt", srt(cues)), write(tmp_path / "b.srt", srt(cues[:-1] + hostile))
    start = time.process_time()
    assert len(both(pairs_config, source, target)) == 29
    assert time.process_time() - start < 10


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_blank_lines_inside_subrip_cues_lose_no_text(tmp_path: Path, pairs_config: Config, gap: str) -> None:
    """Guards cues with an empty line in their text, and files in which every line is followed by one."""
    files = []
    for side in "ab":
        cues = [(2.0 * n, 2.0 * n + 1, f"{side} {n}{gap}{n}{gap}\nlast {side}") for n in range(30)]
        files.append(write(tmp_path / f"{side}.srt", srt(cues).replace("\n", gap)))
    assert both(pairs_config, *files) == [(f"a {n} {n} last a", f"b {n} {n} last b") for n in range(30)]
