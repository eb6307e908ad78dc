"""Print notes to standard error about text outside a model's vocabulary or context."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from tqdm import tqdm

from data.tokens.alphabet import foreign_characters
from data.tokens.tokenizer import Tokenizer
from generation.translation_result import Translation

SHOWN = 5
"""Maximum number of notes of each kind, and of characters in a note."""


class SourceNotes:
    """Notes about lines to translate: the first few of each kind in full, the number of the rest at the end."""

    def __init__(self, tokenizer: Tokenizer, context: int, alphabet: frozenset[str] | None) -> None:
        """alphabet: the characters of the training sources, None if unknown."""
        self.tokenizer = tokenizer
        self.longest = context - 1  # and the end token
        self.alphabet = alphabet
        self.lines = 0
        self.counts: Counter[str] = Counter()

    def check(self, lines: Sequence[str]) -> None:
        """Print notes on problems in the next lines."""
        for line, ids in zip(lines, self.tokenizer.encode_batch(lines), strict=True):
            self.lines += 1
            if self.alphabet is not None and (foreign := foreign_characters(line, self.alphabet)):
                self._add(
                    "in other characters",
                    f"line {self.lines} is mostly in characters that the model was not trained to translate from "
                    f"({', '.join(foreign[:SHOWN])}): the translation may be nonsense",
                )
            elif unknown := unknown_characters(self.tokenizer, line, ids):
                self._add("with unknown characters", f"line {self.lines}: {unknown}")
            if len(ids) > self.longest:
                self._add(
                    "too long",
                    f"line {self.lines} has {len(ids)} tokens, but the model reads at most {self.longest}: "
                    "the rest of the line is not translated",
                )

    def check_translation(self, line: int, translation: Translation) -> None:
        """Print a note if the translation of a line, counted from 1, is cut."""
        if translation.cut:
            length = len(translation.tokens)
            self._add("whose translation is cut", f"the translation of line {line} is cut: no end in {length} tokens")

    def close(self) -> None:
        """Print the number of omitted notes."""
        for kind, count in self.counts.items():
            if count > SHOWN:
                print(f"note: {count - SHOWN} more lines {kind}", file=sys.stderr)

    def _add(self, kind: str, note: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN:
            tqdm.write(f"note: {note}", file=sys.stderr)  # above a progress bar


def unknown_characters(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> str:
    """Return a sentence that names the characters of `text`, tokenised as `ids`, missing from the vocabulary, or ""."""
    if tokenizer.unk_id not in ids:
        return ""
    unknown = sorted(character for character in set(text) if tokenizer.unk_id in tokenizer.encode(character))
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return f"the model has never seen {named(unknown[:SHOWN])}{more}; it reads <unk> there"


def named(characters: Iterable[str]) -> str:
    """List characters with their Unicode names; unprintable characters by name only."""
    names = [(character, unicodedata.name(character, f"U+{ord(character):04X}")) for character in characters]
    return ", ".join(f"{character} ({name})" if character.isprintable() else name for character, name in names)
