"""Write and read the files of a checkpoint, without unpickling code.

step-00000500/weights.safetensors   the weights for generation
              state.pt              the remaining training state
              state.json            the counters (`training.progress.Progress`)
"""

from __future__ import annotations

import json
import secrets
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from configs.errors import UserError
from configs.whole_file import flush
from training.hardware.out_of_memory import is_out_of_memory

WEIGHTS, STATE, SUMMARY = "weights.safetensors", "state.pt", "state.json"


def write_files(folder: Path, step: int, weights: dict[str, Tensor], state: dict, progress: dict) -> None:
    """Write the three files of a checkpoint; a random id stored in two of them identifies files of the same save."""
    save = secrets.token_hex(8)
    contiguous = {name: tensor.contiguous().cpu() for name, tensor in weights.items()}
    save_file(contiguous, folder / WEIGHTS, metadata={"step": str(step), "save": save})
    write_state(state | {"save": save}, folder / STATE)
    (folder / SUMMARY).write_bytes(to_json(progress))
    for name in (WEIGHTS, STATE, SUMMARY):
        flush(folder / name)


def write_state(state: dict, path: Path) -> None:
    """Run `torch.save` on a file opened here, so that system errors are raised as OSError and the file is closed.

    On a path, torch reports `unexpected pos 640 vs 534` or `iostream error` for any cause.
    """
    with path.open("wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # `unexpected pos` while closing the archive after a failed write
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def to_json(progress: dict) -> bytes:
    """Return the content of state.json."""
    return f"{json.dumps(progress, indent=1, allow_nan=False)}\n".encode()


def reason(error: Exception) -> str:
    """Return why a file was not written, without internal details."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).rpartition("error: ")[2].partition(" (os error")[0]  # format of safetensors' messages
    return textwrap.shorten(text or type(error).__name__, 100)


def checkpoint_step(checkpoint: Path) -> int:
    """Return the step of a checkpoint from its counters; in a copied run the folder's name may differ."""
    return int(load_progress(checkpoint)["step"])


def load_progress(checkpoint: Path) -> dict:
    """Load the counters of a checkpoint."""
    with reading(checkpoint / SUMMARY):
        progress = json.loads((checkpoint / SUMMARY).read_text(encoding="utf-8"))
        return progress | {"step": int(progress["step"])}


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Load the weights of a checkpoint, float32, on the CPU."""
    with reading(checkpoint / WEIGHTS):
        return load_file(checkpoint / WEIGHTS)


def load_state(checkpoint: Path) -> dict:
    """Load the training state of a checkpoint: only tensors and plain values, on the CPU.

    Raises UserError if the state is damaged or was saved with other weights. Out-of-memory errors propagate.
    """
    with reading(checkpoint / STATE):
        state = torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)
    progress = load_progress(checkpoint)
    with reading(checkpoint / WEIGHTS), safe_open(checkpoint / WEIGHTS, "pt") as file:
        saved = file.metadata() or {}
    # Older checkpoints have no `save`: compare the steps alone.
    if state.pop("save", None) != saved.get("save") or int(saved.get("step", progress["step"])) != progress["step"]:
        raise UserError(
            f"{checkpoint}: {WEIGHTS} and {STATE} were not saved together, so training cannot resume from them."
            f" To fix it: {fix(checkpoint)}."
        )
    return state | {"progress": progress}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Inside the context, convert errors while reading a file to UserError, except out-of-memory errors."""
    try:
        path.open("rb").close()
    except FileNotFoundError:
        pass  # reported below
    except OSError as error:  # the file may be intact
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        yield
    except Exception as error:  # torch and safetensors raise many types for a damaged file
        if is_out_of_memory(error):
            raise
        cause = textwrap.shorten(str(error).strip() or type(error).__name__, 100)
        raise UserError(f"{path}: missing or damaged ({cause}). To fix it: {fix(path.parent)}.") from error


def fix(checkpoint: Path) -> str:
    """Return how to recover from an unusable checkpoint."""
    others = sorted(path.name for path in checkpoint.parent.glob("step-*") if path != checkpoint)
    if others:
        return f"delete {checkpoint} to fall back to {others[-1]}"
    return "copy the run again from where it was trained"
