"""Find aligned files by their names: `train.en` and `train.ja`, `src-train.txt` and `tgt-train.txt`."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from data.config import DataConfig
from data.sources.compressed import open_bytes, plain_name

_SIDES = "src tgt trg source target"
_LANGUAGES = """aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv
dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu
ja jp jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd
ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su
sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu ara ben bul cat ces chi
cmn dan deu ell eng epo est eus fas fin fra fre ger glg heb hin hrv hun ind isl ita jpn kor lat lav lit mkd nld nob nor
pol por ron rus slk slv spa srp swe tam tel tha tur ukr urd vie yue zho"""
"""ISO 639-1, and the longer codes of the languages that corpora name so (`jpn`, `eng_Latn`)."""
_WORDS = "|".join(f"{_SIDES} {_LANGUAGES}".split())
_REGION = "([-_](?-i:[A-Z]{2}|[A-Z][a-z]{3}|cn|tw|hk|br))?"
TABLES = (
    ".tsv",
    ".csv",
    ".json",
    ".jsonl",
    ".jsonlines",
    ".ndjson",
    ".jl",
    ".parquet",
    ".tmx",
    ".xlf",
    ".xliff",
    ".po",
)
"""Files that have both languages."""


def partners(files: Iterable[Path], config: DataConfig) -> tuple[list[tuple[Path, Path]], list[str]]:
    """Return the pairs of text files whose names differ only in the language or the side, source first; and the two
    names of the sides.

    The sides are those of `source_column` and `target_column` or, if these are not set and there are just two, these
    in alphabetical order. Otherwise no pairs are returned, and the names of all sides.
    """
    chosen = [config.source_column, config.target_column]
    named = "|".join(map(re.escape, chosen))
    pattern = re.compile(rf"(?<![^\W_])({named}|({_WORDS}){_REGION})(?![^\W_])", re.IGNORECASE)
    groups: dict[tuple[Path, str, str], dict[str, Path]] = {}
    for file in files:
        name = plain_name(file).name
        if (matches := [*pattern.finditer(name)]) and not name.lower().endswith(TABLES):
            start, end = matches[-1].span()
            groups.setdefault((file.parent, name[:start], name[end:]), {})[name[start:end]] = file
    sets = [sides for sides in groups.values() if len(sides) > 1]
    if not any(set(chosen) <= set(sides) for sides in sets):
        names = sorted({side for sides in sets for side in sides})
        if len(names) != 2 or chosen != [DataConfig.source_column, DataConfig.target_column]:
            return [], names
        chosen = names
    source, target = chosen
    pairs = [(sides[source], sides[target]) for sides in sets if source in sides and target in sides]
    return [pair for pair in pairs if not any(map(_is_table, pair))], chosen


def _is_table(file: Path) -> bool:
    """Whether a text file has pairs of its own: separated by a tab, or after the settings of an Anki export."""
    if plain_name(file).suffix.lower() != ".txt":
        return False
    with suppress(OSError), open_bytes(file) as stream:  # whoever reads the file reports it
        line = stream.readline(1 << 16)
        return b"\t" in line or line.removeprefix(codecs.BOM_UTF8).startswith(b"#separator:")
    return False
