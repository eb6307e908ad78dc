"""Training of a SentencePiece model on a bounded, evenly spread sample of the text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece

from data.config import TokenizerConfig
from data.errors import DataError

SAMPLE_CHARACTERS = 10_000_000
"""The vocabulary is learnt from at most so many characters (more changes it little and costs minutes), but the
alphabet from all."""

SPECIAL_NAMES = ("<pad>", "<unk>", "<s>", "</s>")
_BORDER = "\ufdd5"  # a noncharacter, which no text should hold
_LINE = 4000  # characters; longer lines are cut for training (SentencePiece skips overlong sentences silently)


def marked(text: str, words: Sequence[Sequence[int]]) -> str:
    """A text for training with its words [start, end) set apart: no piece of the vocabulary will span two of them.

    Japanese marks no words, so that a vocabulary learnt from running text holds frequent pairs such as サムは in one piece, and
    a map cannot tell the two apart.
    """
    starts = [start for start, _ in words if start > 0 and not text[start - 1].isspace()]
    return _BORDER.join(text[a:b] for a, b in zip([0, *starts], [*starts, len(text)], strict=True))


def train_model(texts: Iterable[str], config: TokenizerConfig) -> bytes:
    """Serialised SentencePiece model. Raises DataError when the vocabulary is too large or too small for the text."""
    sample, alphabet = _sample(texts)
    if not sample:
        raise DataError("the training split holds no text to train a tokenizer on")
    newline = "\n" in alphabet
    alphabet -= {"\n", " ", _BORDER}
    alphabet -= set().union(*sample)
    # One character a line: rare characters that the sample missed get into the alphabet without teaching false
    # neighbours.
    lines = sample + sorted(alphabet)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name=config.normalization,
            # These three make encoding exact: no space added, none removed, and a newline is always a token of its own.
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            user_defined_symbols=["\n"] if newline else [],
            # Names that no text holds: the words "<unk>" or "<s>" in a corpus (WikiText has them) stay ordinary text.
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
            num_threads=2,  # fixed: the sums of unigram training depend on it in the last digits
            minloglevel=3,
        )
    except (RuntimeError, OSError, ValueError) as error:
        raise _explained(str(error), config) from error
    return model.getvalue()


def _sample(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """Lines spread evenly over the texts, at most SAMPLE_CHARACTERS in all, and every character that occurs."""
    kept: list[str] = []
    alphabet: set[str] = set()
    step, size = 1, 0
    for number, line in enumerate(_lines(texts, alphabet)):
        if number % step:
            continue
        kept.append(line)
        size += len(line)
        if size > SAMPLE_CHARACTERS:  # full: keep every second line, and from now on take half as many
            kept, step = kept[::2], step * 2
            size = sum(map(len, kept))
    return kept, alphabet


def _lines(texts: Iterable[str], alphabet: set[str]) -> Iterator[str]:
    for text in texts:
        alphabet.update(text)
        for line in text.split("\n"):
            for start in range(0, len(line), _LINE):
                yield line[start : start + _LINE]


def _explained(message: str, config: TokenizerConfig) -> DataError:
    if match := re.search(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)", message):
        return DataError(
            f"tokenizer.vocab_size={config.vocab_size} is more than the training text can fill: "
            f"set it to at most {match[1]}"
        )
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return DataError(
            f"tokenizer.vocab_size={config.vocab_size} has no room for the alphabet of the training text: "
            f"set it to at least {match[1]}, or lower tokenizer.character_coverage "
            "(with tokenizer.byte_fallback=true nothing is lost)"
        )
    return DataError(f"SentencePiece cannot train a {config.kind} tokenizer on this text: {message}")
