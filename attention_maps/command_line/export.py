"""`python -m attention_maps export`: write maps to a file; the file extension selects the format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attention_maps.base.atomic_file import write_whole
from attention_maps.base.errors import UserError
from attention_maps.base.program import expanded
from attention_maps.command_line.loading import also, existing_run, load, recordings
from attention_maps.command_line.questions import MapSettings, questions
from attention_maps.files import store
from attention_maps.record.alignment_readout import Readout, alignment, pharaoh
from attention_maps.record.chosen_map import ChosenMap

ONLY_FOR = {"readout": ".pharaoh", "threshold": ".pharaoh", "steps": ".html"}
"""Settings that apply only to one format."""


@dataclass
class ExportSettings(MapSettings):
    """Settings of `export`: the output file and format-specific options."""

    to: str = ""
    """Output file: .png or .svg for an image, .csv for the weights, .pharaoh for a word alignment, .html for a
    self-contained page that opens with the selected map, or with its finding if no layer or head is selected."""

    readout: Readout = "argmax"
    """.pharaoh: `argmax` links each target token to the source token with the largest weight; `mutual` keeps the
    links that are the argmax in both directions; `grown` adds adjacent pairs that are the argmax in one direction
    (grow-diag); `threshold` links every pair of at least that weight. Special tokens are never linked, but count as
    positions: with rows=reads, bos is position 0."""

    threshold: float = 0.5
    """.pharaoh with readout=threshold: minimum weight of a link."""

    steps: int | Literal["all"] = 1
    """.html: number of recorded steps in the page, evenly spaced and including the selected step; or `all`."""

    overwrite: bool = False
    """Replace the file if it exists."""


def export(run: str, settings: ExportSettings, problems: Sequence[str]) -> None:
    """Write maps to a file: an image, a table of weights, a word alignment, or a self-contained HTML page."""
    to = expanded(settings.to)
    with also([*problems, *setting_problems(settings)]):
        folder = existing_run(run)
        name, title, recording = load(folder, settings.step)
        asked = list(questions(title, recording, settings))
    writer = WRITERS.get(to.suffix.lower())
    content, steps = (writer(asked, settings), 0) if writer else _html(folder, name, title, settings, asked)
    write_whole(to, content, durable=False)
    what = f"{asked[0].origin} · {asked[0].subject}" if len(asked) == 1 else title
    if not writer:
        opening = what if names_a_map(settings) else f"the finding of {title}"
        what = f"steps: {steps}, examples: {len(recording.samples)}, all maps; opens at {opening}"
    print(f"{to}: {_size(len(content))} · {what}")


def setting_problems(settings: ExportSettings) -> list[str]:
    """Check the settings before any file is read; return one message per problem."""
    to, suffixes = expanded(settings.to), ", ".join([*WRITERS, ".html"])
    suffix = to.suffix.lower()
    if not settings.to:
        return [f"to=FILE is required; its extension must be one of {suffixes}"]
    if suffix not in (*WRITERS, ".html"):
        return [f"to={settings.to}: the extension must be one of {suffixes}"]
    taken = to.is_dir() or (to.exists() and not settings.overwrite)
    rules = (
        (taken, f"to={settings.to}: exists" + ("" if to.is_dir() else "; overwrite=true replaces it")),
        (not to.parent.is_dir(), f"to={settings.to}: there is no folder {to.parent}"),
        (
            settings.sample == "all" and suffix not in (".pharaoh", ".html"),
            "sample=all: only .pharaoh and .html support all samples; other files hold one map",
        ),
        (settings.head == "all" and suffix != ".png", "head=all: only .png supports all heads, side by side"),
        (not 0 < settings.threshold <= 1, f"threshold={settings.threshold}: must be above 0 and at most 1"),
        (settings.steps != "all" and settings.steps < 1, f"steps={settings.steps}: must be at least 1, or all"),
    )
    misplaced = [
        f"{key}={getattr(settings, key)}: only for {only}"
        for key, only in ONLY_FOR.items()
        if suffix != only and getattr(settings, key) != getattr(type(settings), key)
    ]
    return [problem for broken, problem in rules if broken] + misplaced


def names_a_map(settings: MapSettings) -> bool:
    """Whether a layer or a head is chosen. Otherwise, a page opens with the word and the head of its finding."""
    return settings.layer is not None or settings.head != "mean"


def _png(asked: Sequence[ChosenMap], settings: ExportSettings) -> bytes:
    from attention_maps.draw import pictures  # matplotlib, which no other format needs

    draw = pictures.heads if settings.head == "all" else pictures.picture
    return draw(asked[0]).png()


def _svg(asked: Sequence[ChosenMap], settings: ExportSettings) -> bytes:
    from attention_maps.draw.pictures import picture

    return picture(asked[0]).svg().encode()


def _csv(asked: Sequence[ChosenMap], settings: ExportSettings) -> bytes:
    """Format a header with the keys, then one line per query: its token and its weights in five digits, as in
    float16."""
    question, text = asked[0], io.StringIO()
    writer = csv.writer(text)
    writer.writerow([question.rows, *question.keys.pieces])
    for piece, weights in zip(question.queries.pieces, question.matrix, strict=True):
        writer.writerow([piece, *(f"{weight:.5g}" for weight in weights)])
    return text.getvalue().encode("utf-8", "backslashreplace")


def _pharaoh(asked: Sequence[ChosenMap], settings: ExportSettings) -> bytes:
    alignments = (alignment(chosen, settings.readout, settings.threshold) for chosen in asked)
    return "".join(pharaoh(pairs) + "\n" for pairs in alignments).encode()


def _html(
    folder: Path, name: str, title: str, settings: ExportSettings, asked: Sequence[ChosenMap]
) -> tuple[bytes, int]:
    """Return a page, and the number of training steps in it: recordings without the sample are left out."""
    from attention_maps.command_line.page import page
    from attention_maps.command_line.page_data import page_data, thinned
    from attention_maps.files.errors import Refusal
    from attention_maps.tensorboard.runs import as_text

    files, steps = recordings(folder), store.steps(folder)
    recorded = [file.stem for file in steps.values()]
    names = list(files) if settings.steps == "all" else thinned(recorded, name, settings.steps)
    names += [] if name in names else [name]
    run = as_text(folder.resolve().name)
    sample = None if settings.sample in (None, "all") else asked[0].sample
    try:
        content = page_data(run, {name: files[name] for name in names}, sample, steps)
    except Refusal as refusal:
        raise UserError(f"{folder}: {refusal}") from None
    state: dict[str, Any] = {"run": run, "recording": name, "kind": settings.kind, "rows": settings.rows}
    if names_a_map(settings):
        first = asked[0]
        state |= {"kind": first.kind, "layer": first.layer, "head": "mean" if first.head is None else first.head}
    chosen = {key: value for key, value in state.items() if value is not None}
    count = len(content["index"]["runs"][run]["steps"])
    return page(f"{title} · attention", content, chosen).encode("utf-8", "replace"), count


WRITERS: dict[str, Callable[[Sequence[ChosenMap], ExportSettings], bytes]] = {
    ".png": _png,
    ".svg": _svg,
    ".csv": _csv,
    ".pharaoh": _pharaoh,
}


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
