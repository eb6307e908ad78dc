"""Interface of a decoding engine. This module does not import torch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Protocol

from data.tokens.tokenizer import Tokenizer
from generation.translation_result import Translation


class Engine(Protocol):
    """A model that is ready to write or to translate, with the settings of the command line."""

    tokenizers: list[Tokenizer]
    """One, or those of source and target."""

    context: int
    """Maximal number of tokens that the model sees at a time."""

    def sample(self, prompt: list[int], texts: int, seed: int) -> Iterator[list[int | None]]:
        """Continue a prompt several times -> at each step the next token of each text, None once it has ended.

        prompt: token ids, at least one. A text ends with eos, which is not returned, or after `max_tokens`; the
        iterator ends when all have ended. Texts may outgrow the context: a model that has filled its context continues
        from the last `context // 2` tokens.
        """
        ...

    def translate(self, portions: Iterable[Sequence[str]]) -> Generator[tuple[int, list[Translation]], None, None]:
        """Translate sentences portion by portion -> index of each sentence, counted through all portions, and its
        `n_best` translations, as they become ready. A portion is requested while earlier ones are being translated."""
        ...
