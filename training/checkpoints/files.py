"""Write and read the files of a checkpoint, without unpickling code.

step-00000500/weights.safetensors   the weights for generation
              state.pt              the remaining training state
              state.json            the counters (`training.counters.Progress`), the hashes of the data (also in
                                    state.pt, which is large), and checksums of all three files
weights-00000064/                   weights alone (`training.checkpoints.early_weights`): the same without state.pt
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from configs.atomic_file import flush
from configs.errors import UserError
from training.checkpoints.checksums import Checksum, ChecksumWriter
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import (
    DATA,
    STATE,
    SUMMARY,
    WEIGHTS,
    Checksums,
    Damaged,
    load_progress,
    read_summary,
    reading,
    summary,
)


def write_files(folder: Path, step: int, snapshot: Snapshot, progress: dict) -> None:
    """Write the three files of a checkpoint; a random id stored in two of them identifies files of the same save.

    The state is written first, without its checksum: the next optimiser step waits for it (see Snapshot).
    """
    save = secrets.token_hex(8)
    write_state(snapshot.state | {"save": save}, folder / STATE)
    weights = write_weights(snapshot, folder / WEIGHTS, {"step": str(step), "save": save})
    data = {DATA: snapshot.state[DATA]} if DATA in snapshot.state else {}
    write_summary(folder, progress | data, {WEIGHTS: weights, STATE: Checksum.of(folder / STATE)})


def write_weights_alone(folder: Path, step: int, snapshot: Snapshot) -> None:
    """Write weights and a summary; their bytes depend on the weights and the step only."""
    checksum = write_weights(snapshot, folder / WEIGHTS, {"step": str(step)})
    write_summary(folder, {"step": step}, {WEIGHTS: checksum})


def write_summary(folder: Path, progress: dict, checksums: Checksums) -> None:
    """Write state.json after the other files, and flush all to disk."""
    (folder / SUMMARY).write_bytes(summary(progress, checksums))
    for name in (*checksums, SUMMARY):
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


def write_weights(snapshot: Snapshot, path: Path, metadata: dict[str, str]) -> Checksum:
    """Write the weights as a safetensors file, in pieces; the library's `save_file` copies all weights at once."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, tensor in snapshot.weights.items():
        assert tensor.dtype == torch.float32
        start, end = end, end + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
    encoded = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        writer = ChecksumWriter(file)
        writer.write(len(encoded).to_bytes(8, "little") + encoded)
        snapshot.write_weights(writer.write)
        return writer.checksum


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Load the weights of a checkpoint, float32, on the CPU. Raises Damaged, or UserError if they cannot be read."""
    _, checksums = read_summary(checkpoint)
    with reading(checkpoint / WEIGHTS, checksums.get(WEIGHTS)):
        return load_file(checkpoint / WEIGHTS)


def load_state(checkpoint: Path) -> dict:
    """Load the training state of a checkpoint: only tensors and plain values, on the CPU.

    Raises Damaged if the file is, or was saved with other weights, and UserError if it cannot be read. Out-of-memory
    errors propagate.
    """
    progress, checksums = read_summary(checkpoint)
    if checksums and STATE not in checksums:
        raise UserError(
            f"{checkpoint}: contains weights alone, so training cannot resume from it; init_from= starts a new run from"
            " them"
        )
    with reading(checkpoint / STATE, checksums.get(STATE)):
        state = torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise TypeError(f"{type(state).__name__}, not a dictionary")
    with reading(checkpoint / WEIGHTS), safe_open(checkpoint / WEIGHTS, "pt") as file:
        saved = file.metadata() or {}
    if state.pop("save", "") != saved.get("save") or int(saved.get("step", -1)) != progress["step"]:
        raise Damaged(checkpoint / STATE, f"it was not saved together with {WEIGHTS}")
    return state | {"progress": progress}


def data_hashes(checkpoint: Path) -> list[str]:
    """Return the hashes of the data of a checkpoint, in the order of `Prepared.keys`; early weights have none."""
    return str(load_progress(checkpoint).get(DATA, "")).split()
