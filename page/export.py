"""Write the page: the Attention tab with recordings, and the models themselves, for `engine/` in the browser."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attention_maps.command_line.loading import existing_run, recordings
from attention_maps.command_line.modules import joined, modules_in
from attention_maps.command_line.page import page
from attention_maps.command_line.page_data import page_data, thinned
from attention_maps.files import store
from attention_maps.files.errors import Refusal
from attention_maps.tensorboard.questions import checkpoints
from attention_maps.tensorboard.runs import as_text
from configs.atomic_file import write_whole
from configs.errors import UserError
from interop.about import about
from interop.settings import ExportSettings
from page.answer_data import answer_data
from page.tokenizer_data import tokenizer_data
from page.weights import describe_weights
from run import Run

ENGINE = Path(__file__).parent / "engine"
PAGE_MODULES = {f"engine/{name}": ENGINE / name for name in ("content.js", "client.js")}
"""Modules of the engine that the page itself imports, beside the tab's; the worker has all the others."""
START = """import {render} from './index.js';
import {contentOf} from './engine/content.js';
const {archive, models} = contentOf(document);
render(archive, models);
"""


def write_page(runs: Sequence[tuple[Path, str]], to: Path, settings: ExportSettings) -> list[str]:
    """Write the page of some runs, each a folder and a checkpoint, to a file; return lines for the terminal.

    Raises UserError for a run without recordings, and for a model or tokenizer that the engine does not compute.
    """
    listed: dict[str, Any] = {}
    described: dict[str, dict[str, str]] = {}
    packed_runs: dict[str, bytes] = {}
    weights: list[bytes] = []
    lines = []
    for folder, checkpoint in tqdm(runs, desc="models", leave=False, disable=None):
        run = Run(folder, checkpoint)
        name = as_text(run.folder.resolve().name)
        if name in listed:
            raise UserError(f"run={settings.run}: two runs are called {name}; rename one of the folders")
        content = recorded(run, name, settings.steps)
        model = model_parts(run, settings, weights)
        number = len(listed)
        listed |= content.pop("index")["runs"]
        packed_runs[f"chumoku-recordings-{number}"] = packed(content)
        packed_runs[f"chumoku-model-{number}"] = packed(model)
        described[name] = about(run.trained) | ({"licence": settings.licence} if settings.licence else {})
        kept = ", ".join(f"{part['step']:,}" for part in model["checkpoints"])
        steps = ", ".join(f"{step:,}" for step in listed[name]["steps"])
        lines.append(f"{name}: weights of step {kept} in {settings.weights}; recordings of step {steps or '(none)'}")
    elements = {
        "chumoku-worker": packed(worker_script()),
        **packed_runs,
        **{f"chumoku-weights-{number}": content for number, content in enumerate(weights)},
    }
    index = {"index": {"runs": listed, "logdir": ""}, "about": described, "runs": list(listed)}
    html = page(
        f"{settings.title or ' and '.join(said['title'] for said in described.values())} · attention",
        None,
        {"run": next(iter(listed))},
        modules={name: path.read_text("utf-8") for name, path in PAGE_MODULES.items()},
        elements={"chumoku-index": index}
        | {name: base64.b64encode(content).decode("ascii") for name, content in elements.items()},
        start=START,
    ).encode("utf-8", "replace")
    to.parent.mkdir(parents=True, exist_ok=True)
    write_whole(to, html, durable=False)
    return [f"{to}: {len(html) / 1e6:.1f} MB; open it in a browser", *lines]


def worker_script() -> str:
    """Return the script of the worker, which a page opened from disk starts from a `blob:` URL."""
    return joined("worker.js", modules_in(ENGINE))


def packed(content: object) -> bytes:
    """Compress a text, or anything else as JSON; the same content gives the same bytes."""
    text = content if isinstance(content, str) else json.dumps(content, allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def recorded(run: Run, name: str, count: int) -> dict[str, Any]:
    """Return the recordings of `count` evenly spaced steps of a run. Raises UserError if there are none."""
    folder = existing_run(str(run.folder))
    files, steps = recordings(folder), store.steps(folder)
    names = [file.stem for file in steps.values()] or list(files)
    chosen = thinned(names, names[-1], count)
    try:
        return page_data(name, {recording: files[recording] for recording in chosen}, None, steps)
    except Refusal as refusal:
        raise UserError(f"{folder}: {refusal}") from None


def model_parts(run: Run, settings: ExportSettings, weights: list[bytes]) -> dict[str, Any]:
    """Return what the worker is started with for one run; the weights of its checkpoints are appended to `weights`, and
    named by their number."""
    names = [entry["name"] for entry in checkpoints(str(run.folder / "attention"))]
    names = thinned(names, run.checkpoint.name, settings.checkpoints) if names else []
    others = [Run(run.folder, name) for name in names if name != run.checkpoint.name]
    kept = sorted([run, *others], key=lambda member: member.step)
    parts = []
    for member in tqdm(kept, desc="checkpoints", leave=False, disable=None):
        description, content = describe_weights(member.model, settings.weights)
        parts.append(
            {"name": member.checkpoint.name, "step": member.step, "description": description, "weights": len(weights)}
        )
        weights.append(content)
    return {
        "checkpoints": parts,
        "tokenizers": [tokenizer_data(tokenizer) for tokenizer in run.tokenizers],
        "data": answer_data(run, kept),
    }
