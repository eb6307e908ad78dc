"""Record attention maps of generated texts into the run folder for TensorBoard's Attention tab."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from attention_maps.files import store
from attention_maps.record.example import Example
from configs.errors import UserError
from data.batches.source_sentences import source_ids
from data.tokens.tokenizer import Tokenizer
from generation.translation_result import Translation
from interpretability.recorder import record
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

RECORDED = 16
"""Maximum number of texts or translations whose maps are recorded."""


class GeneratedMaps:
    """Collects the first `RECORDED` texts, then records their maps."""

    def __init__(
        self,
        folder: Path,
        step: int,
        model: GPT | EncoderDecoder,
        tokenizers: list[Tokenizer],
        max_tokens: int,
        reverse: bool = False,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """folder, step: the run and its checkpoint; model: with the exact weights; max_tokens: limit per map side;
        reverse: as in TranslationConfig; about: what the recording says of the run."""
        self.reverse, self.about = reverse, about
        self.folder, self.step, self.model, self.tokenizers = folder, step, model, tokenizers
        self.max_tokens = max_tokens
        self.limit = min(max_tokens, model.config.context)
        self.examples: list[Example] = []
        self.texts = self.truncated = 0
        """Number of texts, and number of examples whose maps show only a part."""

    def add_text(self, tokens: list[int], prompt: str) -> None:
        """Add a GPT's text, including prompt and leading eos; maps of long texts show the end, the generated part."""
        self.texts += 1
        if self.texts <= RECORDED:
            name = short_name(prompt) or f"sample {self.texts}"
            self.examples.append(Example.text(tokens[-self.limit :], self.tokenizers[0], name))
            self.truncated += len(tokens) > self.limit

    def add_translation(self, sentence: str, translation: Translation) -> None:
        """Add a sentence and its translation; maps of long sentences show the beginning."""
        self.texts += 1
        if self.texts <= RECORDED:
            source, target = self.tokenizers[0], self.tokenizers[-1]
            (ids,) = source_ids(source, [sentence], self.reverse)
            example = Example.pair(ids, translation.tokens, source, target, short_name(sentence))
            self.examples.append(example)
            self.truncated += max(len(example.source_ids or ()), len(example.target_ids)) > self.limit

    def save(self) -> None:
        """Record the maps, and print their path and how to view them."""
        if not self.examples:
            return
        labels = self.tokenizers[-1]
        recording = record(
            self.model,
            self.examples,
            labels.special_ids,
            self.step,
            pieces=labels.pieces,
            max_tokens=self.max_tokens,
            about=self.about,
        )
        try:
            path = store.save_generated(recording, self.folder)
        except OSError as error:
            raise UserError(f"{self.folder}: the attention maps cannot be written ({error.strerror})") from error
        part = "last" if isinstance(self.model, GPT) else "first"
        notes = [f"the first {RECORDED} of {self.texts} texts"] if self.texts > RECORDED else []
        if self.truncated:
            notes.append(f"{self.truncated} longer than a map, which shows the {part} {self.limit} tokens")
        folder = self.folder if self.folder.name else self.folder.absolute()
        number = int(path.stem.rpartition("_")[2])
        print("; ".join([f"attention maps: {path}", *notes]), file=sys.stderr)
        print(
            f"to view them: tensorboard --logdir {shlex.quote(str(folder.parent))}, tab Attention, run {folder.name}, "
            f"generated {number}",
            file=sys.stderr,
        )


def short_name(text: str) -> str:
    """Shorten a text to a name for menus."""
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"
