"""The scripts in which languages are written, by their ISO 639-1 codes."""

from __future__ import annotations

LANGUAGE_SCRIPTS = {"ar": "Arabic", "fa": "Arabic", "ur": "Arabic", "he": "Hebrew", "el": "Greek", "ka": "Georgian"}
LANGUAGE_SCRIPTS |= dict.fromkeys(("bg", "ru", "uk"), "Cyrillic")
LANGUAGE_SCRIPTS |= {"bn": "Bengali", "hi": "Devanagari", "ta": "Tamil", "th": "Thai"}
LANGUAGE_SCRIPTS |= {"ja": "Japanese", "zh": "Chinese", "ko": "Hangul"}
LANGUAGE_SCRIPTS |= dict.fromkeys(
    "az ca cs da de en eo es et eu fi fr ga gl hu id it lt lv ms nb nl no pl pt ro sk sl sq sv tl tr vi".split(),
    "Latin",
)
