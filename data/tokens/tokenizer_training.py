"""Train a SentencePiece model on a bounded, evenly spaced sample of the text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import sentencepiece

from data.config import TokenizerConfig
from data.errors import DataError

SAMPLE_CHARACTERS = 10_000_000
"""Maximum number of training characters (more cost minutes and change little); the alphabet covers the whole text."""

LARGEST_FITTED = {"bpe": 1024, "unigram": 1024, "char": 10_000}
"""Default vocabulary size for a long text with a small alphabet."""

_LEAST_LEARNT = 400
"""Minimum number of pieces beyond the alphabet, however large the alphabet is: a few thousand Chinese or Japanese
characters would leave no room for longer pieces, nor for the words of the other language."""

_CHARACTERS_PER_PIECE = 400
"""Characters of text per piece beyond the alphabet, for the default vocabulary size.

Measured in bits per byte with the default model on n characters of plays and of novels. For n = 8,000 and 32,000
characters, a vocabulary of characters only is best; n / 400 additional pieces cost 3 %, n / 100 cost 5 to 6 %, n / 25
cost 11 to 16 %. For 128,000, n / 400 additional pieces are equal or 1 % off; for 400,000 they gain 2 %."""

SPECIAL_NAMES = ("<pad>", "<unk>", "<s>", "</s>")
_BORDER = "\ufdd5"  # a noncharacter, which no text should contain
_LINE = 4000  # characters; longer lines are split for training (SentencePiece silently skips overlong sentences)


def marked(text: str, words: Sequence[Sequence[int]]) -> str:
    """Mark the boundaries of the words [start, end) of a training text, so that no piece spans two words.

    Japanese has no spaces, so that a vocabulary trained on running text has pieces such as サムは, a noun with its
    particle, which no attention map can separate.
    """
    starts = [start for start, _ in words if start > 0 and not text[start - 1].isspace()]
    return _BORDER.join(text[a:b] for a, b in zip([0, *starts], [*starts, len(text)], strict=True))


def train_model(texts: Iterable[str], config: TokenizerConfig) -> bytes:
    """Return a serialised SentencePiece model. Raises DataError if the vocabulary size does not fit the text."""
    sample = _sample(texts)
    if config.vocab_size is not None:
        return _trained(sample, config, config.vocab_size)
    try:
        return _trained(sample, config, fitted_size(sample, config))
    except _WrongSize as error:  # a repetitive text, or one that grows when it is normalised
        return _trained(sample, config, error.possible)


def fitted_size(sample: Sample, config: TokenizerConfig) -> int:
    """Return the vocabulary size for a text: the number of distinct characters, plus pieces in proportion
    to its length."""
    alphabet = len(SPECIAL_NAMES) + len(sample.alphabet) + (256 if config.byte_fallback else 0)
    most = LARGEST_FITTED[config.kind]
    if config.kind == "char":
        return min(alphabet, most)
    return alphabet + min(sample.characters // _CHARACTERS_PER_PIECE, max(most - alphabet, _LEAST_LEARNT))


def _trained(sample: Sample, config: TokenizerConfig, vocab_size: int) -> bytes:
    # Rare characters missing from the sample, one per line: they enter the alphabet without spurious neighbours.
    missed = sample.alphabet - {"\n", " "} - set().union(*sample.lines)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample.lines + sorted(missed)),
            model_writer=model,
            model_type=config.kind,
            vocab_size=vocab_size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name=config.normalization,
            # For a lossless round trip: no space is added or removed, and a newline is always a separate token.
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            user_defined_symbols=["\n"] if "\n" in sample.alphabet else [],
            # Names that occur in no text: "<unk>" or "<s>" in a corpus (as in WikiText) stay ordinary text.
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            pad_piece="\ufdd0pad",
            unk_piece="\ufdd0unk",
            bos_piece="\ufdd0bos",
            eos_piece="\ufdd0eos",
            pretokenization_delimiter="" if config.kind == "char" else _BORDER,
            max_sentence_length=1 << 20,
            num_threads=2,  # fixed: the last digits of sums in unigram training depend on it
            minloglevel=3,
        )
    except (RuntimeError, OSError, ValueError) as error:
        raise _explained(str(error), config, vocab_size) from error
    return model.getvalue()


@dataclass
class Sample:
    """Training text for a vocabulary."""

    lines: list[str]
    """Evenly spaced lines of the texts, at most SAMPLE_CHARACTERS in all."""

    alphabet: set[str]
    """All characters that occur in the texts."""

    characters: int
    """Total length of all texts."""


def _sample(texts: Iterable[str]) -> Sample:
    """Sample the texts. Raises DataError if there is no text."""
    sample = Sample([], set(), 0)
    step, size = 1, 0
    for number, line in enumerate(_lines(texts, sample)):
        if number % step:
            continue
        sample.lines.append(line)
        size += len(line)
        if size > SAMPLE_CHARACTERS:  # full: keep every second line, and halve the sampling rate from now on
            sample.lines, step = sample.lines[::2], step * 2
            size = sum(map(len, sample.lines))
    sample.alphabet.discard(_BORDER)
    if not sample.lines:
        raise DataError("the training split contains no text to train a tokenizer on")
    return sample


def _lines(texts: Iterable[str], sample: Sample) -> Iterator[str]:
    for text in texts:
        sample.alphabet.update(text)
        sample.characters += len(text)
        for line in text.split("\n"):
            for start in range(0, len(line), _LINE):
                yield line[start : start + _LINE]


class _WrongSize(DataError):
    """The vocabulary does not fit the text; `possible` is a size that fits."""

    def __init__(self, message: str, possible: int) -> None:
        super().__init__(message)
        self.possible = possible


_MISFITS = {
    r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)": (
        "is more than the training text can fill: set it to at most {}"
    ),
    r"smaller than required_chars\. \d+ vs (\d+)": (
        "has no room for the alphabet of the training text: set it to at least {}, or lower"
        " tokenizer.character_coverage (with tokenizer.byte_fallback=true nothing is lost)"
    ),
}
"""Messages of SentencePiece about a vocabulary size, and our explanations."""


def _explained(message: str, config: TokenizerConfig, vocab_size: int) -> DataError:
    for pattern, advice in _MISFITS.items():
        if match := re.search(pattern, message):
            return _WrongSize(f"tokenizer.vocab_size={vocab_size} {advice.format(match[1])}", int(match[1]))
    return DataError(f"SentencePiece cannot train a {config.kind} tokenizer on this text: {message}")
