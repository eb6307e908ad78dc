"""Recognise files that are no data for training, and say how to get text out of them."""

from __future__ import annotations

import codecs
import re
import shlex
import zipfile
from contextlib import suppress
from pathlib import Path

from data.errors import DataError
from data.sources.compressed import compression, open_bytes, plain_name

_START = 1 << 12  # bytes that show what a file is
_OFFICE = "soffice --headless --convert-to {} NAME (LibreOffice)"
_TEXT = f"save it as text, for example: {_OFFICE.format('txt:Text')}"
_SHEET = f"save the sheet as CSV, for example: {_OFFICE.format('csv')}"
_NOT_HERE = "has no text that this program reads"
_NUMBERS = "a file of tokens or other numbers", "give the text that they were made from: tokens are made here"

_CATS = {"gzip": "zcat", "bzip2": "bzcat", "xz": "xzcat", "zstd": "zstdcat"}

_SIGNATURES = [
    (rb"version https://git-lfs\.github\.com/", "a pointer of Git LFS, not the data", "fetch them: git lfs pull"),
    (rb"(\.git)?/annex/objects/", "a pointer of git-annex, not the data", "fetch them: git annex get NAME"),
    (rb"%PDF-", "a PDF document", "take its text out: pdftotext NAME book.txt"),
    (rb"%!PS", "a PostScript document", "take its text out: ps2ascii NAME book.txt"),
    (rb"\{\\rtf", "an RTF document", _TEXT),
    (rb"AT&TFORM", "a DjVu document", "take its text out: djvutxt NAME book.txt"),
    (rb".{60}BOOKMOBI", "a Kindle book", "take its text out: ebook-convert NAME book.txt (Calibre)"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1", "an old Office document (.doc, .xls, .ppt)", f"{_TEXT}, or csv for a sheet"),
    (
        rb"SQLite format 3\0",
        "an SQLite database",
        "write a table of it as CSV: sqlite3 -header -csv NAME 'SELECT source, target FROM pairs' > pairs.csv",
    ),
    (rb".{4}(Standard Jet DB|Standard ACE DB)", "an Access database", "export a table of it as CSV"),
    (rb"\x89HDF", "an HDF5 file", "write its texts as JSON Lines or parquet"),
    (
        rb"ARROW1\0\0|FEA1[\0-\x1f]",
        "an Arrow file",
        "convert it: pyarrow.feather.read_table(…), pyarrow.parquet.write_table(…)",
    ),
    (rb"\xff\xff\xff\xff.{3}\0", "an Arrow stream", "convert it: datasets.Dataset.from_file(…).to_parquet(…)"),
    (rb"Obj\x01", "an Avro table", "write it as parquet, or as JSON Lines"),
    (rb"\x80[\2-\5]", "a pickle", "pickles can run code and are not read: save its texts as JSON Lines"),
    (rb"\xde\x12\x04\x95|\x95\x04\x12\xde", "a compiled catalogue (MO)", "write it as PO: msgunfmt NAME > pairs.po"),
    (rb"\x93NUMPY", *_NUMBERS),
    (rb"GGUF.\0|.{5}\0\0\0\{\"", "a file with the weights of a model", "give texts; init_from= starts from weights"),
    (
        rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07",
        "an archive of a kind that is not read",
        "unpack it (7z x NAME), give the folder",
    ),
    (rb"\x04\x22\x4d\x18", "a compressed file of a kind that is not read", "unpack it: lz4 -d NAME"),
    (rb"\x1f[\x9d\xa0]", "a compressed file of a kind that is not read", "unpack it: gzip -d NAME"),
    (rb"\x5d\0\0|LZIP\x01", "a compressed file of a kind that is not read", "unpack it: xz -d NAME, or lzip -d NAME"),
    (
        rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*|BM.{4}\0\0\0\0|RIFF.{4}WEBP|\0\0.{2}ftyp(avif|heic)",
        "a picture",
        "",
    ),
    (rb"ID3[\2-\4]|\xff[\xfb\xf3\xf2]|OggS\0|fLaC\0|RIFF.{4}WAVE|FORM.{4}AIF|\0\0.{2}ftypM4A", "a sound recording", ""),
    (rb"\0\0.{2}ftyp|\x1aE\xdf\xa3|RIFF.{4}AVI |\x00\x00\x01\xba", "a video", ""),
    (rb"\x7fELF|MZ.\0|\0asm", "a program", ""),
]
"""The beginning of a file, what it is, and what to do; NAME stands for its name."""

_TREEBANK = "a treebank (CoNLL-U)", "take its text out: sed -n 's/^# text = //p' NAME > text.txt"
_MARKED = [
    (
        rb"WEBVTT\b|\d+\s+\d+:\d\d:\d\d[.,]\d+ *-->|\[Script Info\]|\{\d+\}\{\d+\}",
        "a file of subtitles",
        "pairs are read from two of them, named NAME.srt or NAME.vtt",
    ),
    (rb"PAR1\x15", "a parquet file", "name it NAME.parquet"),
    (rb"(#[^\n]*\n\s*)*msgid ", "a file of translations (PO)", "its pairs are read with data=pairs, named NAME.po"),
    (rb"(#[^\n]*\n)+1(-\d+)?\t([^\t\n]+\t){8}", *_TREEBANK),
]
"""The beginning of a text with marks, as in `_SIGNATURES`."""

_ZIPPED = [
    ("xl/workbook.", "an Excel workbook", _SHEET),
    ("word/document", "a Word document", _TEXT),
    ("ppt/presentation.", "a PowerPoint presentation", f"save it as PDF, then pdftotext; {_OFFICE.format('pdf')}"),
    ("Index/Document.iwa", "an Apple document (Pages, Numbers, Keynote)", "export it there as plain text or as CSV"),
    ("collection.anki2", "an Anki deck", "in Anki: File > Export > Notes in Plain Text, and give that file"),
    ("META-INF/MANIFEST.MF", "a Java program", _NOT_HERE),
]
"""The beginning of a name in a zip file that is a document, and what the document is."""
_MIMETYPES = {
    "application/epub+zip": ("an EPUB book", "take its text out: pandoc -t plain NAME -o book.txt"),
    "application/vnd.oasis.opendocument.text": ("an OpenDocument text", _TEXT),
    "application/vnd.oasis.opendocument.spreadsheet": ("an OpenDocument spreadsheet", _SHEET),
}

_MARKS = "training would learn its markup; take its text out"
_DAMAGED = {".xlsx": ("an Excel workbook", _SHEET), ".epub": _MIMETYPES["application/epub+zip"]}
_DAMAGED |= {".docx": ("a Word document", _TEXT), ".odt": ("an OpenDocument text", _TEXT)}
"""Zip files that cannot be opened, by their ending."""

_HTML = "an HTML page", f"{_MARKS}: pandoc -f html -t plain NAME -o page.txt"
_ROOTS = {
    "html": _HTML,
    "annotation_document": (
        "an ELAN annotation",
        "in ELAN: File > Export As > Tab-delimited Text, and choose its columns (data.text_column; of pairs"
        " data.source_column, data.target_column)",
    ),
    "tmx": ("a translation memory (TMX)", "its pairs are read with task=translate data=pairs, named NAME.tmx"),
    "xliff": ("a translation file (XLIFF)", "its pairs are read with task=translate data=pairs, named NAME.xlf"),
    "mediawiki": ("a dump of a wiki", "take its text out: python -m wikiextractor.WikiExtractor --json NAME"),
    "tei": (
        "a TEI document",
        "take its text out: xmllint --xpath 'string(//*[local-name()=\"text\"])' NAME > book.txt",
    ),
    "ts": ("a file of Qt Linguist", "make a file of pairs (translate-toolkit): ts2po NAME pairs.po"),
    "resources": (
        "a file of an Android app with texts by keys",
        "make pairs of two such files (translate-toolkit): android2po -t SOURCE NAME pairs.po",
    ),
    "svg": ("a picture", _NOT_HERE),
}
_ROOTS |= dict.fromkeys(
    ("srcset", "refset", "tstset", "mteval"),
    ("a test set of WMT with markup", "take its lines out: grep '<seg' NAME | sed 's/<[^>]*>//g' > lines.txt"),
)
_MARKUP = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*(<\?xml\b|<!doctype\b|<(html|tmx|xliff|mediawiki|tei|svg|resources|srcset|refset|tstset|mteval)\b)",
    re.I | re.S,
)
_ROOT = re.compile(rb"<(?!doctype|xml)([a-z][\w.-]*)(?::([a-z][\w.-]*))?", re.I)

_NAMES = {".ipynb": ("a notebook", "take its text out: jupyter nbconvert --to markdown NAME")}
_NAMES |= {
    ".lrc": ("a song with the times of its lines", r"take its text out: sed 's/\[[^][]*\]//g' NAME > lyrics.txt")
}
_NAMES |= {".conllu": _TREEBANK, ".eaf": _ROOTS["annotation_document"], ".xml": ("an XML file", _MARKS)}
_NAMES |= dict.fromkeys((".html", ".htm", ".xhtml", ".mhtml", ".mht"), _HTML)
"""Files whose beginning need not show what they are, by their ending."""


def foreign(path: Path, text: bool = True) -> str | None:
    """Return what a file is and how to get text out of it, as `is a …; …`; None for data, and for what is not known.
    text: whether the file would be read as text, also that of a table. Raises DataError for a damaged compressed
    file."""
    try:
        with open_bytes(path) as stream:
            start = stream.read(_START)
    except OSError:  # whoever reads the file reports it
        return None
    kind = _signed(start, _SIGNATURES) or (_zipped(path) if start.startswith(b"PK\x03\x04") else None)
    if kind is None and text:
        suffix, start = plain_name(path).suffix.lower(), start.removeprefix(codecs.BOM_UTF8)
        kind = _NUMBERS if suffix == ".bin" and b"\0" in start else None
        kind = kind or _markup(start) or _signed(start, _MARKED) or _NAMES.get(suffix)
    if kind is None:
        return None
    what, way = kind
    return f"is {what}; {(way or 'it ' + _NOT_HERE).replace('NAME', shlex.quote(path.name))}"


def foreign_start(start: bytes) -> str | None:
    """Return what a file that begins with these bytes is, as `foreign` does, if it is no text; also compressed text."""
    if kind := compression(start):
        return f"is compressed ({kind}); pass the text: {_CATS[kind]} FILE | python generate.py …"
    if start.startswith(b"PK\x03\x04"):
        return "is a zip file or an Office document; pass its text"
    signature = _signed(start, _SIGNATURES)
    return f"is {signature[0]}; {(signature[1] or 'it ' + _NOT_HERE).replace('NAME', 'FILE')}" if signature else None


def _signed(start: bytes, signatures: list[tuple[bytes, str, str]]) -> tuple[str, str] | None:
    return next(((what, way) for pattern, what, way in signatures if re.match(pattern, start, re.DOTALL)), None)


def _zipped(path: Path) -> tuple[str, str] | None:
    """Return what document a zip file is, None for an archive."""
    with (
        suppress(OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile),
        zipfile.ZipFile(path) as file,
    ):
        names = file.namelist()
        if "mimetype" in names and file.getinfo("mimetype").file_size < _START:
            kind = file.read("mimetype").decode("ascii", "replace").strip()
            if kind in _MIMETYPES or "opendocument" in kind:
                return _MIMETYPES.get(kind, ("an OpenDocument file", _TEXT))
        if names and all(name.endswith(".npy") for name in names):
            return _NUMBERS
        if {"data.pkl", "version"} <= {name.rpartition("/")[2] for name in names}:
            return "a PyTorch file", "pickles can run code and are not read; give texts"
        return next(
            ((what, way) for begin, what, way in _ZIPPED if any(name.startswith(begin) for name in names)), None
        )
    return _DAMAGED.get(path.suffix.lower())


def _markup(start: bytes) -> tuple[str, str] | None:
    """Return what a file is that begins with the markup of XML or HTML."""
    match = _MARKUP.match(start)
    if not match:
        return None
    root = _ROOT.search(re.sub(rb"<!--.*?-->", b"", start, flags=re.DOTALL), match.start())
    name = (root[2] or root[1]).decode() if root else ""
    if name.lower() in _ROOTS:
        return _ROOTS[name.lower()]
    if re.match(rb"\s*<!doctype\s+html", start, re.I):
        return _HTML
    return f"an XML file{f' (<{name}>)' if name else ''}", _MARKS


def check_kind(path: Path, text: bool) -> None:
    """Raise DataError for a file of a kind that is not read. text: as in `foreign`."""
    if reason := foreign(path, text):
        raise DataError(f"{path}: {reason}")
