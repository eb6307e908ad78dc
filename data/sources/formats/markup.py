"""Formats of translators and subtitles by their endings, where they are no data, and the text of HTML cells."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

from data.errors import DataError
from data.sources.compressed import plain_name
from data.sources.paths.aligned_files import TABLES

_KEYED = {".json": "json2po", ".arb": "arb2po", ".yml": "yaml2po", ".yaml": "yaml2po", ".properties": "prop2po"}
_KEYED |= {".ini": "ini2po", ".toml": "toml2po", ".ftl": "fluent2po", ".php": "php2po"}
_KEYED |= {".strings": "prop2po --personality=strings --encoding=utf-8"}
"""Programs of translate-toolkit that make pairs of two files of texts with keys, as apps have them."""
_HINTS = {".strings": "; UTF-16 without --encoding"}
_HINTS |= dict.fromkeys((".yml", ".yaml"), "[yaml]; a language at the top must be called the same in both")

_OTHER_SUBTITLES = (".ass", ".ssa", ".sub", ".sbv", ".ttml", ".dfxp", ".smi")

FORMATS = dict.fromkeys((".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".po", ".pot"), "translations")
FORMATS |= dict.fromkeys((".srt", ".vtt"), "subtitles") | dict.fromkeys(_OTHER_SUBTITLES, "other subtitles")
"""Formats of files by their endings."""


def check_readable(kind: str, entry: tuple[Path, ...], task: str) -> None:
    """Raise DataError, with the way on, if files of this format are not data of the task. entry: one of them, or of two
    sides."""
    file, name = entry[0], plain_name(entry[0])
    ending = name.suffix.lower()
    quoted, stem = shlex.quote(str(name)), shlex.quote(name.stem)
    pairs = "pairs are read from it with task=translate data=pairs"
    if kind == "other subtitles":
        way = f"subtitles of a format that is not read; convert them: ffmpeg -i {quoted} {stem}.srt"
    elif task == "gpt" and kind == "translations":
        way = f"a file of translations; {pairs}; for running text, save one side of it as a text file"
    elif task == "gpt" and kind == "subtitles":
        command = f"grep -v -e '-->' -e '^[0-9[:space:]]*$' -e ^WEBVTT {quoted} | sed 's/<[^>]*>//g' > {stem}.txt"
        way = f"subtitles; two such files are pairs for task=translate data=pairs; for running text: {command}"
    elif kind == "translations" and len(entry) > 1:
        way = "a file of translations, which holds both sides; give data.path one such file, a folder or a glob"
    elif kind in ("aligned", "tsv") and ending in _KEYED:
        names = " ".join(shlex.quote(str(path)) for path in entry) if len(entry) == 2 else f"SOURCE {quoted}"
        way = (
            "a file of texts with keys, and has no sentence on each line; make pairs of two such files"
            f" (translate-toolkit{_HINTS.get(ending, '')}): {_KEYED[ending]} -t {names} pairs.po"
        )
    elif kind == "aligned" and ending in TABLES:
        way = "a table; give one table that has both columns, or two text files with a sentence on each line"
    elif kind == "subtitles" and len(entry) == 1:
        way = "a file of subtitles; pairs need two, source and target: data.path=a.en.srt,a.ja.srt"
    else:
        return
    raise DataError(f"{file}: is {way}")


def html_text(cell: str) -> str:
    """Return the text of a cell of HTML; line breaks stay, sounds and tags are dropped."""
    if not re.search(r"[<&]|\[sound:", cell):
        return cell
    text = re.sub(r"<(br|/?(div|p|li|tr))\b[^<>]*>", "\n", cell, flags=re.IGNORECASE)
    text = html.unescape(re.sub(r"<[^<>]*>|\[sound:[^\[\]]*\]", "", text)).replace("\xa0", " ")
    return "\n".join(filter(None, map(str.strip, text.split("\n"))))
