"""Show the Attention tab in a notebook, as the output of a cell: no server, everything is in the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from attention_maps.base.atomic_file import write_whole
from attention_maps.base.errors import UserError
from attention_maps.command_line.loading import existing_run, load, recordings
from attention_maps.command_line.page import page
from attention_maps.command_line.page_data import page_data, thinned
from attention_maps.files import store
from attention_maps.files.errors import Refusal
from attention_maps.record.recording import Recording


@dataclass(frozen=True, repr=False)
class Inline:
    """A page with the Attention tab. A cell whose last value is one shows it, also in a saved notebook."""

    html: str
    """The page, complete in itself."""

    height: int = 680
    """Height of the frame in the notebook, in pixels."""

    def _repr_html_(self) -> str:
        """Return a frame with the page, which the notebook cannot be reached from."""
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 4px"
        return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{escape(self.html)}"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page to a file, atomically. Raises OSError."""
        write_whole(Path(path), self.html.encode("utf-8", "replace"), durable=False)


def show_recording(recording: Recording, **state: Any) -> Inline:
    """Show the maps of one recording. state: where the tab opens, such as `kind="cross"`, `layer=1`, `head=0`,
    `view="lines"`, `sample=0`; the names and values are those in the address of the tab."""
    with TemporaryDirectory() as folder:
        file = store.save(recording, Path(folder))
        return _inline("recording", {file.stem: file}, {recording.step: file}, {"view": "map", **state})


def show_run(run: str | Path, steps: int | Literal["all"] = 12, **state: Any) -> Inline:
    """Show the recordings of a run: the story of its training, curves, and maps at up to `steps` evenly spaced steps.

    state: as for `show_recording`. Raises UserError if there is no such run, or if it has no recordings.
    """
    folder = existing_run(str(run))
    files, every = recordings(folder), store.steps(folder)
    names = [file.stem for file in every.values()] or list(files)
    chosen = names if steps == "all" else thinned(names, names[-1], steps)
    load(folder, chosen[-1])  # a damaged one is named by its file
    return _inline(folder.resolve().name, {name: files[name] for name in chosen}, every, state)


def _inline(run: str, files: Mapping[str, Path], measured: Mapping[int, Path], state: Mapping[str, Any]) -> Inline:
    try:
        content = page_data(run, files, None, measured)
    except Refusal as refusal:
        raise UserError(f"{run}: {refusal}") from None
    return Inline(page(f"{run} · attention", content, {"run": run, "recording": list(files)[-1], **state}))
