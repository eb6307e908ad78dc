"""Select fonts that together cover Japanese and `▁`, which starts every SentencePiece word.

DejaVu Sans comes first because IPAexGothic lacks `▁` (U+2581).
Only the font file of matplotlib_fontja is used: importing the package would change global matplotlib settings.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import matplotlib
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font


@cache
def families() -> tuple[str, ...]:
    """Register the fonts with matplotlib and return their families in fallback order."""
    for file in _files():
        fontManager.addfont(file)
    return tuple(FT2Font(file).family_name for file in _files())


@cache
def font(size: float, bold: bool = False) -> FontProperties:
    """Return the label font at a size in points. Use `bold` only if `has_bold(text)`."""
    names = list(families()[: 1 if bold else None])
    return FontProperties(family=names, size=size, weight="bold" if bold else "normal")


@cache
def characters() -> frozenset[str]:
    """Return all characters that the fonts cover."""
    return frozenset().union(*map(_charmap, _files()))


def has_bold(text: str) -> bool:
    """Whether a text can be drawn in bold: the Japanese font has only one weight."""
    return _charmap(_files()[0]).issuperset(text)


@cache
def _charmap(file: str) -> frozenset[str]:
    return frozenset(map(chr, FT2Font(file).get_charmap()))


def _files() -> tuple[str, ...]:
    package = find_spec("matplotlib_fontja")
    if package is None or package.origin is None:
        problem = "matplotlib-fontja, which contains the Japanese font, is not installed"
        raise ModuleNotFoundError(f"{problem}: pip install matplotlib-fontja")
    latin = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return str(latin), str(Path(package.origin).parent / "fonts" / "ipaexg.ttf")
