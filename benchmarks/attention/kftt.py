"""Alignment error rate of a translation run's cross-attention on the hand-aligned sentences of KFTT (Neubig 2011).

The folder holds `jaen.src-tgt` (`ja tokens ||| en tokens`) and `jaen.gold` (1-based `ja-en` links, all of them sure).
These are Wikipedia sentences about Kyoto: for a model of everyday sentences the figure is one out of its domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.inputs import existing_folder
from configs.errors import UserError
from training.evaluation.head_scores import alignment_scores, describe
from training.run_folder.loaded_run import load_run

DAMAGED = range(350, 356)
"""Lines whose links belong to other sentences (some point past the end)."""

CLOSING = frozenset(".,!?;:)'\"") | {"'s", "n't"}
"""English tokens that are written without a space in front."""


@dataclass
class KFTTSettings:
    """Settings of `kftt`."""

    run: str = ""
    """Run folder of an English-Japanese translator."""

    folder: str = ""
    """Folder with `jaen.src-tgt` and `jaen.gold`."""


def kftt(settings: KFTTSettings) -> None:
    """Alignment error rate of a run's cross-attention, all layers and heads, on hand-aligned sentences of KFTT."""
    run, folder = existing_folder("run", settings.run), existing_folder("folder", settings.folder)
    rows = list(sentences(folder))
    loaded = load_run(run)
    found = alignment_scores(loaded.model, loaded.tokenizers, rows, lenient=False)  # type: ignore[arg-type]
    if found is None:
        raise UserError(f"run={run}: no sentence fits the model's context of {loaded.config.model.context} tokens")
    print(describe("KFTT", found))
    print(f"\n{len(rows) - found.count} of {len(rows)} sentences are longer than the model's context and left out")


def joined(tokens: list[str], spaces: bool) -> tuple[str, list[list[int]]]:
    """A running text and the [start, end) of every token in it."""
    text, spans = "", []
    for token in tokens:
        if spaces and text and token not in CLOSING and not text.endswith("("):
            text += " "
        spans.append([len(text), len(text) + len(token)])
        text += token
    return text, spans


def sentences(folder: Path) -> Iterator[dict[str, Any]]:
    """English-Japanese rows in the form of the built-in corpus."""
    if not (folder / "jaen.gold").is_file():
        raise UserError(f"folder={folder}: has no jaen.gold")
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
