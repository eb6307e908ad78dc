"""The encoding of a text: what its first bytes say, and which one a text that is not UTF-8 is probably in."""

from __future__ import annotations

import codecs
import re
import shlex
import textwrap
from contextlib import suppress

SAMPLE = 1 << 16
"""Bytes from which an encoding is recognised."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_WIDE = {"utf-32-le": 4, "utf-32-be": 4, "utf-16-le": 2, "utf-16-be": 2}
"""Bytes of a unit of the encodings that have NUL bytes in every text."""

_SOME = 0.75
"""Share of other bytes above which NUL bytes are stray ones: in UTF-16, half of the bytes of Latin text are NUL.
Other alphabets have fewer, but also control characters (04 in Cyrillic)."""
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")

_COMMON = """cp1252 latin_1 iso8859_15 cp1250 iso8859_2 cp1251 koi8_r koi8_u cp1253 iso8859_7 cp1254 iso8859_9 cp1255
cp1256 cp1257 cp1258 tis_620 cp932 euc_jp iso2022_jp gb18030 big5 cp949 cp866 cp850 mac_roman iso8859_5 iso8859_6
cp855 mac_cyrillic johab""".split()
"""Encodings to choose from: of all that the library knows, it takes rare ones for the common ones too often."""

_JAPANESE = ("cp932", "euc_jp")
_KANA = re.compile("[\u3041-\u30ff]")
_MANY = 0.2
"""Share of kana among the characters beyond ASCII of a text that is Japanese, which the library takes for Korean."""

_SIGNS = re.compile(rb"[!-/:-@\[-`{-~]{2,}")
"""Separators such as `+++$+++`, for which the library does not take a file for a text."""

_LATIN = ("cp1252", "cp1250", "cp1254", "iso8859_2", "cp1257")
"""Encodings of the Latin alphabet, which the library confuses; the common ones first."""
_CLOSE = 0.2
"""Difference of the library's measure of disorder within which it is not trusted among these."""
_ALPHABETS = """àâæçéèêëîïôœùûüÿ äöüß áéíñóúüª àáâãçéêíóôõúü àèéìíòóù åäöæø áéíðóúýþæö çğıöşüâîû\u0307 ąćęłńóśźż
áäčďéěíĺľňóôŕřšťúůýž áéíóöőúüű ăâîşţșț čćđšž ąčęėįšųūž āčēģīķļņšūž äöõüšž""".split()
"""Letters of French, German, Spanish, Portuguese, Italian, the languages of Scandinavia, Turkish, Polish, Czech and
Slovak, Hungarian, Romanian, South Slavic, Lithuanian, Latvian, Estonian."""

_ESCAPES = {b"\x1b$B": "iso2022_jp", b"\x1b$@": "iso2022_jp", b"\x1b$)C": "iso2022_kr"}
"""What every text in these encodings has; its bytes are valid UTF-8."""


def marked(start: bytes) -> tuple[str | None, int]:
    """Return the encoding that a byte order mark at the start of a file names, and the length of the mark."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding, len(mark)
    return None, 0


def is_text_encoding(name: str) -> bool:
    """Whether Python decodes text from an encoding of this name."""
    try:
        b"a".decode(name)  # Python does not look up the name for no bytes
    except UnicodeError:
        return True
    except (LookupError, ValueError):
        return False
    return True


def likely(sample: bytes) -> str | None:
    """Return the encoding that bytes which are not UTF-8, or have NUL characters, are probably in."""
    wide = {
        name: sum(map(text.count, " \n。、\t"))
        for name, size in _WIDE.items()
        if (text := _decoded(sample[: len(sample) // size * size], name)) and "\0" not in text
    }
    if b"\0" in sample:
        rest = sample.replace(b"\0", b"")
        if len(rest) > _SOME * len(sample) and _is_utf8(rest) and not _CONTROL.search(rest):
            return None  # a text with stray NUL characters
        return max(wide, key=wide.__getitem__) if any(wide.values()) else None
    if encoding := seven_bit(sample):
        return encoding
    if _is_utf8(sample):
        return "utf-8"  # which is not what the user chose
    for name in _JAPANESE:
        text = codecs.getincrementaldecoder(name)("replace").decode(sample)
        if "\ufffd" not in text and len(_KANA.findall(text)) > _MANY * sum(letter > "\x7f" for letter in text):
            return name
    from charset_normalizer import from_bytes

    results = (from_bytes(text, cp_isolation=_COMMON) for text in (sample, _SIGNS.sub(b" ", sample)))
    matches = next((list(result) for result in results if result), [])
    close = [match for match in matches if match.chaos <= matches[0].chaos + _CLOSE]
    if not close:
        return None
    if close[0].encoding not in _LATIN:
        return close[0].encoding
    names = [name for name in _LATIN if any(name in match.could_be_from_charset for match in close)]
    return max(names, key=lambda name: _in_one_alphabet(_decoded(sample, name)))


def _in_one_alphabet(text: str) -> float:
    """Return the largest share of letters beyond ASCII that one language has."""
    letters = [letter for letter in text.casefold() if letter > "\x7f" and letter.isalpha()]
    return max(sum(map(alphabet.count, letters)) for alphabet in _ALPHABETS) / max(1, len(letters))


def seven_bit(sample: bytes) -> str | None:
    """Return the encoding of a text whose bytes are valid UTF-8 and mean something else."""
    return next((name for escape, name in _ESCAPES.items() if escape in sample), None)


def advice(name: str, sample: bytes, setting: str | None = "data.encoding", *, has_mark: bool = False) -> str:
    """Return what to do with a file that is not UTF-8. setting: what chooses an encoding, if something does. has_mark:
    whether the file begins with the byte order mark of UTF-8 all the same."""
    encoding = likely(sample)
    if encoding is None:
        return "its encoding is not recognised; is it a text? If so, save it as UTF-8"
    python = codecs.lookup(encoding).name
    iconv = re.sub("(UTF-..)-|ISO(?=2022)", lambda match: match[1] or "ISO-", python.upper().replace("_", "-"))
    iconv = "MACINTOSH" if encoding == "mac_roman" else iconv
    stem, dot, suffix = name.rpartition(".")
    fixed = f"{stem}.utf8.{suffix}" if dot else f"{name}.utf8"
    source = f"tail -c +4 {shlex.quote(name)} | iconv" if has_mark else "iconv"
    command = f"{source} -f {iconv} -t UTF-8 {'' if has_mark else shlex.quote(name) + ' '}> {shlex.quote(fixed)}"
    text = sample.decode(encoding, "replace").strip()
    example = textwrap.shorten(
        next((line for line in text.splitlines() if not line.isascii()), text), 40, placeholder="…"
    )
    way = f"set {setting}={python}, or convert it: {command}" if setting else f"convert it: {command}"
    return f"it looks like {python} ({example!r}); if so, {way}"


def _is_utf8(sample: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(sample)
        return True
    return False


def _decoded(sample: bytes, encoding: str) -> str:
    """Return the text, "" if the bytes are not valid in this encoding."""
    try:
        return sample.decode(encoding)
    except UnicodeError:
        return ""
