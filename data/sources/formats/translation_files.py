"""Read the pairs of translators' files - TMX, XLIFF, PO - with translate-toolkit."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.sources.compressed import open_bytes, plain_name
from data.sources.tables import Columns

_CODE = {"bpt", "ept", "it", "ph", "ut"}
"""Elements of TMX and XLIFF that hold codes of the translated document, not its text."""

_MOST = 1 << 28  # bytes of a file
_HEAD = 10_000  # bytes in which a file says what it is

Unit = dict[str, str]
"""Texts by language; in formats with two sides also by `source` and `target`."""


def translation_rows(path: Path, columns: Columns) -> Iterator[dict[str, str]]:
    """Yield our columns of each unit; a missing side is "". Columns are languages (`en`, `en-US`), by default the two
    sides of the file.

    Raises DataError if translate-toolkit is missing, or the file is damaged or not in these languages. The library
    reads no external entities and expands no others.
    """
    name = plain_name(path)
    kind = {".tmx": "TMX", ".po": "PO", ".pot": "PO"}.get(name.suffix.lower(), "XLIFF")
    with open_bytes(path) as stream:
        content = stream.read(_MOST + 1)
    if len(content) > _MOST:
        raise DataError(
            f"{path}: {kind} files are held in memory, and this one has more than {_MOST >> 20} MiB; divide it, or give"
            " two files with a sentence on each line, as OPUS has them (Moses)"
        )
    try:
        sides, units = {"TMX": _tmx, "XLIFF": _xliff, "PO": _po}[kind](content)
    except ImportError as error:
        raise DataError(
            f"{path}: {kind} files are read with translate-toolkit: pip install translate-toolkit"
        ) from error
    except Exception as error:  # of the library, of lxml, of decoding
        cause = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{path}: cannot be read as {kind} ({cause})") from error
    languages = list(dict.fromkeys(chain.from_iterable(units)))
    chosen = {}
    for ours, (key, name_of_ours) in columns.items():
        wanted = sides.get(ours, "") if name_of_ours == ours else name_of_ours
        chosen[ours] = [language for language in languages if _same(language, wanted)]
        if not chosen[ours] and ours in languages:  # PO does not name the language of its sources
            chosen[ours] = [ours]
        if not chosen[ours]:
            settings = " and ".join(key for key, _ in columns.values())
            raise DataError(
                f"{key}={name_of_ours}: {path} is in {', '.join(languages) or 'no language'}; set {settings} to two of"
                " these"
            )
    for unit in units:
        yield {ours: next((unit[name] for name in names if unit.get(name)), "") for ours, names in chosen.items()}


def _same(language: str, wanted: str) -> bool:
    """Whether a language is the wanted one; `en` stands for all its variants."""
    language, wanted = (tag.lower().replace("_", "-") for tag in (language, wanted))
    return wanted in (language, language.partition("-")[0])


def _tmx(content: bytes) -> tuple[dict[str, str], list[Unit]]:
    """Return the languages of the sides, and the units."""
    from translate.storage.tmx import tmxfile

    memory = tmxfile.parsestring(content.lstrip())
    units = []
    for unit in memory.units:
        texts: Unit = {}
        for node in unit.getlanguageNodes():
            language = node.get("{http://www.w3.org/XML/1998/namespace}lang") or node.get("lang") or ""
            for segment in node.iterchildren("{*}seg"):
                texts.setdefault(language, _text(segment))
        units.append(texts)
    languages = list(dict.fromkeys(language.lower() for language in chain.from_iterable(units)))
    if len(languages) != 2:  # en-US and en-GB count as one
        languages = list(dict.fromkeys(language.partition("-")[0] for language in languages))
    if len(languages) != 2:
        return {}, units
    first = memory.getsourcelanguage() or ""
    if _same(languages[1], first) or _same(first, languages[1]):
        languages.reverse()
    return {"source": languages[0], "target": languages[1]}, units


def _xliff(content: bytes) -> tuple[dict[str, str], list[Unit]]:
    from translate.storage.xliff import Xliff1File
    from translate.storage.xliff2 import Xliff2File

    newer = b"urn:oasis:names:tc:xliff:document:2" in content[:_HEAD]
    document = (Xliff2File if newer else Xliff1File).parsestring(content.lstrip())
    languages = document.getsourcelanguage() or "source", document.gettargetlanguage() or "target"
    pairs = [(_text(unit.source_dom), _text(unit.target_dom)) for unit in document.units]
    return _two_sides(languages, pairs)


def _po(content: bytes) -> tuple[dict[str, str], list[Unit]]:
    """Fuzzy and obsolete messages are left out; of the forms of a plural, the first and the last are read."""
    from translate.storage.pypo import pofile

    if charset := re.search(rb"charset=([\w.:-]+)", content[:_HEAD]):  # the library misses it where it reads ahead
        with suppress(LookupError):  # CHARSET, in a template
            utf8 = content[: charset.start(1)] + b"UTF-8" + content[charset.end(1) :]
            content = utf8.decode(charset[1].decode()).encode()
    catalogue = pofile.parsestring(content.removeprefix(codecs.BOM_UTF8))
    pairs: list[tuple[str, str]] = []
    for unit in catalogue.units:
        if unit.isheader() or unit.isfuzzy() or unit.isobsolete():
            continue
        if unit.hasplural():
            sources, targets = ([str(form) for form in side.strings] for side in (unit.source, unit.target))
            if len(targets) > 1:
                pairs.append((sources[0], targets[0]))
            pairs.append((sources[-1], targets[-1]))
        else:
            pairs.append((str(unit.source), str(unit.target)))
    return _two_sides(("source", catalogue.gettargetlanguage() or "target"), pairs)


def _two_sides(languages: tuple[str, str], pairs: list[tuple[str, str]]) -> tuple[dict[str, str], list[Unit]]:
    return dict(zip(("source", "target"), languages, strict=True)), [
        dict(zip(languages, pair, strict=True)) for pair in pairs
    ]


def _text(element: Any) -> str:
    """Return the text of an element of lxml on one line, without codes of the document; "" for None."""
    if element is None:
        return ""
    parts: list[str] = []

    def add(node: Any) -> None:
        parts.append(node.text or "")
        for child in node:
            if isinstance(child.tag, str) and child.tag.rpartition("}")[2] not in _CODE:
                add(child)
            parts.append(child.tail or "")

    add(element)
    return " ".join("".join(parts).split())
