"""Select fonts that together cover Japanese and `▁`.

DejaVu Sans comes first because IPAexGothic lacks `▁` (U+2581), which starts every SentencePiece word.
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
    names = []
    for file in _files():
        fontManager.addfont(file)
        names.append(FT2Font(file).family_name)
    return tuple(names)


@cache
def font(size: float, bold: bool = False) -> FontProperties:
    """Label font at a size in points. Use `bold` only if `has_bold(text)`."""
    return FontProperties(
        family=list(families()[: 1 if bold else None]), size=size, weight="bold" if bold else "normal"
    )


@cache
def characters() -> frozenset[str]:
    """All characters that the fonts cover."""
    return frozenset().union(*map(_charmap, _files()))


def has_bold(text: str) -> bool:
    """Whether a text can be drawn in bold: the Japanese font has only one weight."""
    latin = _charmap(_files()[0])
    return all(character in latin for character in text)


@cache
def _charmap(file: str) -> frozenset[str]:
    return frozenset(map(chr, FT2Font(file).get_charmap()))


def _files() -> tuple[str, ...]:
    package = find_spec("matplotlib_fontja")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "matplotlib-fontja, which contains the Japanese font, is not installed: pip install matplotlib-fontja"
        )
    japanese = Path(package.origin).parent / "fonts" / "ipaexg.ttf"
    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), str(japanese)
