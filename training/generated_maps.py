"""The attention maps of what `generate.py` writes, for TensorBoard's Attention tab."""

from __future__ import annotations

import shlex
import sys

from attention_maps.record.example import Example
from configs.errors import UserError
from generation.translation import Translation
from training.evaluation.maps import GENERATED, record_generated
from training.evaluation.probes import translated_example
from training.run_folder.layout import LoadedRun


class GeneratedMaps:
    """Collects the first `GENERATED` texts that are written, and records their maps in the run."""

    def __init__(self, run: LoadedRun) -> None:
        """run: with the exact weights, in evaluation mode."""
        self.run = run
        self.limit = min(run.config.attention.max_tokens, run.config.model.context)  # tokens of a side in a map
        self.examples: list[Example] = []
        self.texts = self.cut = 0
        """How many were written, and of how many examples the maps show only a part."""

    def add_text(self, tokens: list[int], name: str) -> None:
        """A GPT's text, prompt and leading eos included; of a long one the maps show the end, which is what was
        written."""
        if self._counted():
            self.examples.append(Example.text(tokens[-self.limit :], self.run.tokenizers[0], name))
            self.cut += len(tokens) > self.limit

    def add_translation(self, sentence: str, translation: Translation) -> None:
        """A sentence and its translation; of long ones the maps show the beginning."""
        if self._counted():
            example = translated_example(self.run.tokenizers, sentence, translation, shortened(sentence))
            self.examples.append(example)
            self.cut += max(len(example.source_ids or ()), len(example.target_ids)) > self.limit

    def _counted(self) -> bool:
        """Count a text -> whether its maps are kept."""
        self.texts += 1
        return self.texts <= GENERATED

    def record(self) -> None:
        """Record the maps, and say where they are and how to see them."""
        if not self.examples:
            return
        try:
            path, _ = record_generated(self.run, self.examples)
        except OSError as error:
            raise UserError(f"{self.run.folder}: the attention maps cannot be written ({error.strerror})") from error
        part = "first" if self.run.config.task == "translate" else "last"
        notes = [f"the first {GENERATED} of {self.texts} texts"] if self.texts > GENERATED else []
        notes += [f"{self.cut} longer than a map, which shows the {part} {self.limit} tokens"] if self.cut else []
        folder = self.run.folder if self.run.folder.name else self.run.folder.absolute()
        number = int(path.stem.rpartition("_")[2])
        print("; ".join([f"attention maps: {path}", *notes]), file=sys.stderr)
        print(
            f"to see them: tensorboard --logdir {shlex.quote(str(folder.parent))}, tab Attention, run {folder.name}, "
            f"generated {number}",
            file=sys.stderr,
        )


def shortened(text: str, otherwise: str = "") -> str:
    """A text as a name in menus."""
    line = " ".join(text.split()) or otherwise
    return line if len(line) <= 40 else line[:39] + "…"
