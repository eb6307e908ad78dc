"""Recordings on disk: one safetensors file per step beside the run's event files.

`<run>/attention/step_00001000.safetensors` holds, per sample number, kind and layer,

    <sample>/<encoder|decoder|cross>/<layer>         float16 [H,Q,K]   attention weights
    <sample>/<encoder|decoder|cross>/<layer>/norms   float16 [H,Q]     L2 norm of each head's output

and as metadata `format`, `version`, `step` and `samples`: a JSON list with the tokens, losses and predictions of each
sample. Readers ignore keys they do not know, so that more can be stored later. Plain files, because TensorBoard keeps
only ten random steps of what is in event files, and writing there takes 200 times as long.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from attention_maps.recording import KINDS, Prediction, Recording, Sample, Tokens

FOLDER = "attention"
FORMAT = "chumoku-attention"
VERSION = "1"
STEP = re.compile(r"step_(\d{8,})\.safetensors")
TENSOR = re.compile(r"(\d+)/(encoder|decoder|cross)/(\d+)(/norms)?")


class RecordingError(Exception):
    """A file is not a readable recording; the message names the file and what is wrong with it."""


def path(run_folder: str | Path, step: int) -> Path:
    """Where the recording of a step lives. No `=` or `,` in the name: TensorBoard and Hydra split at them."""
    return Path(run_folder) / FOLDER / f"step_{step:08d}.safetensors"


def save(recording: Recording, run_folder: str | Path) -> Path:
    """Write a recording into its run and return the path. The file appears complete or not at all."""
    final = path(run_folder, recording.step)
    final.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, np.ndarray] = {}
    for number, sample in enumerate(recording.samples):
        for (kind, layer), weights in sample.weights.items():
            tensors[f"{number}/{kind}/{layer}"] = np.ascontiguousarray(weights)
        for (kind, layer), norms in sample.norms.items():
            tensors[f"{number}/{kind}/{layer}/norms"] = np.ascontiguousarray(norms)
    samples = json.dumps([_sample_to_json(sample) for sample in recording.samples], ensure_ascii=False, allow_nan=False)
    metadata = {"format": FORMAT, "version": VERSION, "step": str(recording.step), "samples": samples}
    # Not flushed to the disk: after a power cut `load` reports a short file, and a map can be recorded again.
    partial = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        save_file(tensors, partial, metadata=metadata)
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)
    return final


def steps(run_folder: str | Path) -> dict[int, Path]:
    """The recorded steps of a run and their files, in order. Empty when nothing was recorded."""
    folder = Path(run_folder) / FOLDER
    found = [(STEP.fullmatch(file.name), file) for file in folder.iterdir()] if folder.is_dir() else []
    return dict(sorted((int(match[1]), file) for match, file in found if match))


def remove_after(run_folder: str | Path, step: int) -> list[Path]:
    """Remove the recordings of later steps, and return their paths: a run resumed at `step` would mix two histories."""
    later = [file for recorded, file in steps(run_folder).items() if recorded > step]
    for file in later:
        file.unlink()
    return later


def load(file: str | Path) -> Recording:
    """Read a recording.

    Raises FileNotFoundError, or RecordingError for a truncated, damaged or foreign file; nothing in it is trusted.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such recording")
    try:
        with safe_open(file, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            _check_format(metadata, file)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no dict)
    except SafetensorError as error:
        raise RecordingError(
            f"{file}: not a whole safetensors file ({error}); it was cut off or is something else"
        ) from error
    try:
        samples = [_sample_from_json(entry) for entry in json.loads(metadata["samples"])]
        _attach(tensors, samples)
        return Recording(int(metadata["step"]), tuple(samples))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        detail = f"missing {error}" if isinstance(error, KeyError) else error
        raise RecordingError(f"{file}: a damaged recording ({detail})") from error


def _check_format(metadata: Mapping[str, str], file: Path) -> None:
    if metadata.get("format") != FORMAT:
        raise RecordingError(f"{file}: a safetensors file, but not an attention recording of this project")
    if metadata.get("version") != VERSION:
        raise RecordingError(f"{file}: recording format {metadata.get('version')}; this program reads {VERSION}")


def _sample_to_json(sample: Sample) -> dict[str, Any]:
    return {
        "name": sample.name,
        "reads": _tokens_to_json(sample.reads),
        "predicts": _tokens_to_json(sample.predicts),
        "source": None if sample.source is None else _tokens_to_json(sample.source),
        "losses": [_number_to_json(loss) for loss in sample.losses],
        "predictions": [[[p.id, p.piece, _number_to_json(p.probability)] for p in row] for row in sample.predictions],
        "length": sample.length,
        "source_length": sample.source_length,
        "truncated": sample.truncated,
    }


def _sample_from_json(entry: Mapping[str, Any]) -> Sample:
    sample = Sample(
        reads=_tokens_from_json(entry["reads"]),
        predicts=_tokens_from_json(entry["predicts"]),
        source=None if entry["source"] is None else _tokens_from_json(entry["source"]),
        losses=tuple(_number_from_json(loss) for loss in entry["losses"]),
        predictions=tuple(
            tuple(Prediction(int(token), str(piece), _number_from_json(chance)) for token, piece, chance in row)
            for row in entry["predictions"]
        ),
        weights={},
        norms={},
        name=str(entry["name"]),
        length=int(entry["length"]),
        source_length=int(entry["source_length"]),
    )
    if len(sample.losses) != len(sample.predicts) or len(sample.predictions) != len(sample.reads):
        raise ValueError("losses and predictions do not match the tokens")
    return sample


def _number_to_json(number: float) -> float | None:
    """A diverged model's NaN as null: browsers refuse the word NaN."""
    return number if math.isfinite(number) else None


def _number_from_json(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _tokens_to_json(tokens: Tokens) -> dict[str, Any]:
    return {"ids": tokens.ids, "pieces": tokens.pieces, "special": [int(mark) for mark in tokens.special]}


def _tokens_from_json(entry: Mapping[str, Any]) -> Tokens:
    ids = tuple(int(token) for token in entry["ids"])
    pieces = tuple(str(piece) for piece in entry["pieces"])
    return Tokens(ids, pieces, tuple(bool(mark) for mark in entry["special"]))


def _attach(tensors: Mapping[str, np.ndarray], samples: list[Sample]) -> None:
    """Give each sample its maps. Raises ValueError where names, types, shapes and tokens do not belong together."""
    heads: dict[tuple[int, str], int] = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: _natural(item[0])):
        match = TENSOR.fullmatch(name)
        if match is None:
            continue  # something a later version stores
        number, kind, layer = int(match[1]), match[2], int(match[3])
        if number >= len(samples):
            raise ValueError(f"tensor {name} belongs to no sample")
        sample = samples[number]
        queries = len(sample.reads if kind != "encoder" else sample.source or ())
        keys = len(sample.reads if kind == "decoder" else sample.source or ())
        count = heads.setdefault((number, kind), tensor.shape[0] if tensor.ndim else 0)
        expected = (count, queries) if match[4] else (count, queries, keys)
        if tensor.dtype != np.float16 or tensor.shape != expected or 0 in expected:
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}; its tokens ask for float16 {list(expected)}"
            )
        (sample.norms if match[4] else sample.weights)[kind, layer] = tensor
    for number, sample in enumerate(samples):
        for kind in KINDS:
            layers = {key for key in sample.weights if key[0] == kind}
            if layers != {(kind, layer) for layer in range(len(layers))}:
                raise ValueError(f"layers are missing among the {kind} maps of sample {number}")
        if sample.norms.keys() != sample.weights.keys():
            raise ValueError(f"sample {number} has maps without norms, or norms without maps")


def _natural(name: str) -> list[tuple[int, str]]:
    """Layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split("/")]
