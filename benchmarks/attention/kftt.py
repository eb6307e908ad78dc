"""Measure the alignment error rate of a translator's cross-attention on hand-aligned sentences of KFTT (Neubig 2011).

The folder contains `jaen.src-tgt` (`ja tokens ||| en tokens`) and `jaen.gold` (1-based `ja-en` links, all sure).
The sentences are from Wikipedia articles about Kyoto, and thus out of domain for a model of everyday sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.inputs import existing
from configs.errors import UserError
from run import Run
from training.evaluation.head_scores import alignment_scores
from training.guided_alignment.guidance import guided_heads

DAMAGED = range(350, 356)
"""Lines whose links belong to other sentences (some indices are out of range)."""

CLOSING = frozenset(".,!?;:)'\"") | {"'s", "n't"}
"""English tokens without a preceding space."""


@dataclass
class KFTTSettings:
    """Settings of `kftt`."""

    run: str = ""
    """Run folder of an English-to-Japanese translator."""

    folder: str = ""
    """Folder with `jaen.src-tgt` and `jaen.gold`."""


def kftt(settings: KFTTSettings) -> None:
    """Measure the alignment error rate of a run's cross-attention, all layers and heads, on KFTT."""
    run, folder = existing("run", settings.run, "folder"), existing("folder", settings.folder, "folder")
    rows = list(sentences(folder))
    loaded = Run(run)
    guided = guided_heads(loaded.model.config, loaded.config.trainer.guided_alignment)
    found = alignment_scores(loaded.model, loaded.tokenizers, rows, lenient=False, guided=guided)  # type: ignore[arg-type]
    if found is None:
        raise UserError(f"run={run}: no sentence fits the model's context of {loaded.config.model.context} tokens")
    print(found.report("KFTT"))
    print(f"\n{len(rows) - found.count} of {len(rows)} sentences skipped: longer than the model's context")


def joined(tokens: list[str], spaces: bool) -> tuple[str, list[list[int]]]:
    """Join tokens into a text -> the text and the character span [start, end) of each token."""
    text, spans = "", []
    for token in tokens:
        if spaces and text and token not in CLOSING and not text.endswith("("):
            text += " "
        spans.append([len(text), len(text) + len(token)])
        text += token
    return text, spans


def sentences(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield English-Japanese rows with alignments, in the format of the built-in corpus."""
    if not (folder / "jaen.gold").is_file():
        raise UserError(f"folder={folder}: does not contain jaen.gold")
    texts = (folder / "jaen.src-tgt").read_text("utf-8").splitlines()
    links = (folder / "jaen.gold").read_text("utf-8").splitlines()
    for number, (text, gold) in enumerate(zip(texts, links, strict=True)):
        if number in DAMAGED:
            continue
        japanese, english = (side.split() for side in text.split("|||"))
        (source, source_spans), (target, target_spans) = joined(english, True), joined(japanese, False)
        pairs = [tuple(int(place) - 1 for place in link.split("-")) for link in gold.split()]
        alignment = [[*source_spans[e], *target_spans[j]] for j, e in pairs]
        yield {"source": source, "target": target, "words": [source_spans, target_spans], "alignment": alignment}
