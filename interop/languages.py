"""Which languages a translator was trained on: by the names of its data, and by the scripts of its characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from configs.errors import UserError
from data.language_scripts import LANGUAGE_SCRIPTS
from interop.trained import Trained

NAMES = {
    "ar": "Arabic",
    "az": "Azerbaijani",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "ms": "Malay",
    "nb": "Norwegian Bokmål",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sv": "Swedish",
    "th": "Thai",
    "tl": "Tagalog",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
    "zt": "Chinese (traditional)",
}
"""English names of languages by their ISO 639 code; another language is named by its code."""

_CODES = {name: code for code in NAMES for name in (code, NAMES[code].lower())}
_SAME = {"nb": "no", "pb": "pt", "zt": "zh"}
"""Codes of Argos Translate, by those of the same language in file names."""

FEW = 10
"""Letters of a script that show that the targets are written in it. They are not compared with the other letters: the
rare Chinese characters of Japanese sources may be missing in the alphabet of a sample of the sources."""


def direction(setting: str | None, trained: Trained) -> tuple[str, str]:
    """Return the codes of source and target. setting: `languages`. Raises UserError if they are not given and not
    known, or not those of the run."""
    known = known_languages(trained.config["data"])
    if setting is None:
        if known is None:
            raise UserError("format=argos: needs the codes of the languages, source first: languages=en,ja")
        return known
    source, _, target = setting.partition(",")
    given = _same(source), _same(target)
    if known is not None and given != known:
        raise UserError(
            f"languages={setting}: the run translates from {NAMES[known[0]]} to {NAMES[known[1]]}:"
            f" languages={','.join(known)}"
        )
    if problems := [] if known else _other_scripts(trained, given):
        raise UserError(*(f"languages={setting}: {problem}" for problem in problems))
    return source, target


def _same(code: str) -> str:
    """Return the code of a language without its region: `pt` for `pt-BR` and `pb`."""
    code = code.partition("-")[0]
    return _SAME.get(code, code)


def known_languages(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the codes of source and target that the data settings name: the built-in corpus, `a.en,b.ja`, columns
    `en` and `ja`; None if they name none."""
    if data["source"] == "primer":
        return "en", "ja"
    sides = [(data["source_column"], data["target_column"])]
    if len(files := (data["path"] or "").split(",")) == 2:
        sides.append((files[0], files[1]))
    for source, target in sides:
        codes = _code(source), _code(target)
        if codes[0] and codes[1] and codes[0] != codes[1]:
            return codes[0], codes[1]
    return None


def _code(name: str) -> str | None:
    """Return the language that a file or column names: `train.en`, `en.txt`, `Japanese`, `translation.ja`."""
    words = re.split(r"[._\-]", Path(name.strip().lower()).name)
    if words[-1] in _CODES:  # corpus.en-ja.en
        return _same(_CODES[words[-1]])
    found = {_same(_CODES[word]) for word in words if word in _CODES}
    return found.pop() if len(found) == 1 else None


def _other_scripts(trained: Trained, given: tuple[str, str]) -> list[str]:
    """Return a sentence for each side whose characters are of another script than that of its language."""
    try:
        sources = set((trained.run / "source_alphabet.txt").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return []
    known = {character for piece in trained.tokenizers[-1].text_pieces() for character in piece}
    found = []
    for side, letters, few in (("sources", scripts(sources), None), ("targets", scripts(known - sources), FEW)):
        code = given[side == "targets"]
        wanted = LANGUAGE_SCRIPTS.get(code)
        if wanted is None or not letters:
            continue
        most, count = letters.most_common(1)[0]
        if letters[wanted] < min(count, few or count):
            found.append(
                f"{NAMES.get(code, code)} is written in {wanted} characters, but the {side} of the run in {most}"
            )
    return found


def scripts(characters: Iterable[str]) -> Counter[str]:
    """Count the letters of each script. Kana and Chinese characters are both `Japanese` or both `Chinese`, by the share
    of kana: a hundred of some thousand characters; in between they are either."""
    names = (unicodedata.name(each, "") for each in characters if each.isalpha())
    letters = Counter(name.partition(" ")[0].capitalize() for name in names)
    kana = letters.pop("Hiragana", 0) + letters.pop("Katakana", 0)
    both = kana + letters.pop("Cjk", 0)
    if kana > both / 100:
        letters["Japanese"] = both
    if both and kana <= both / 10:
        letters["Chinese"] = both
    return letters
