"""Recordings on disk: one safetensors file per step beside the run's event files.

`<run>/attention/step_00001000.safetensors` holds, per sample number, kind and layer,

    <sample>/<encoder|decoder|cross>/<layer>         float16 [H,Q,K]   attention weights
    <sample>/<encoder|decoder|cross>/<layer>/norms   float16 [H,Q]     L2 norm of each head's output
    <sample>/<encoder|decoder|cross>/<layer>/values  float16 [H,K]     norm of what each head adds for a key
    <sample>/<encoder|decoder>/rollout               float16 [Q,K]     attention rollout over all layers

and as metadata `format`, `version`, `step`, `samples` (a JSON list with the tokens, losses and predictions of each
sample), `measures`, `labels`, `scores` and `deviation` (JSON too). Readers ignore keys they do not know and do without
the last four and the last two tensors, which older files lack. Plain files, because TensorBoard keeps only ten random
steps of what is in event files, and writing there takes 200 times as long.

`<run>/attention/generated_00001.safetensors` has the same form: the maps of a text that `generate.py` wrote.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from attention_maps.recording import KINDS, Antecedents, Measures, Prediction, Recording, Sample, Score, Tokens

FOLDER = "attention"
FORMAT = "chumoku-attention"
VERSION = "1"
STEP = re.compile(r"step_(\d{8,})\.safetensors")
GENERATED = re.compile(r"generated_(\d{5,})\.safetensors")
TENSOR = re.compile(r"(\d+)/(encoder|decoder|cross)/(?:(\d+)(?:/(norms|values))?|(rollout))")


class RecordingError(Exception):
    """A file is not a readable recording; the message names the file and what is wrong with it."""


def path(run_folder: str | Path, step: int) -> Path:
    """Where the recording of a step lives. No `=` or `,` in the name: TensorBoard and Hydra split at them."""
    return Path(run_folder) / FOLDER / f"step_{step:08d}.safetensors"


def save(recording: Recording, run_folder: str | Path) -> Path:
    """Write the recording of a training step into its run and return the path; it appears complete or not at all."""
    return _write(recording, path(run_folder, recording.step))


def save_generated(recording: Recording, run_folder: str | Path) -> Path:
    """Write a recording of generated text into its run, under the next free number."""
    number = max(generated(run_folder), default=0) + 1
    return _write(recording, Path(run_folder) / FOLDER / f"generated_{number:05d}.safetensors")


def _write(recording: Recording, final: Path) -> Path:
    final.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, np.ndarray] = {}
    for number, sample in enumerate(recording.samples):
        for suffix, arrays in (("", sample.weights), ("/norms", sample.norms), ("/values", sample.values)):
            for (kind, layer), array in arrays.items():
                tensors[f"{number}/{kind}/{layer}{suffix}"] = np.ascontiguousarray(array)
        for kind, array in sample.rollout.items():
            tensors[f"{number}/{kind}/rollout"] = np.ascontiguousarray(array)
    metadata = {"format": FORMAT, "version": VERSION, "step": str(recording.step)} | {
        "samples": _json([_sample_to_json(sample) for sample in recording.samples]),
        "measures": _json(_finite(recording.measures)),
        "labels": _json(recording.labels),
        "scores": _json([_finite(asdict(score)) for score in recording.scores]),
        "deviation": _json(_finite(recording.deviation)),
    }
    # Not flushed to the disk: after a power cut `load` reports a short file, and a map can be recorded again.
    partial = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        save_file(tensors, partial, metadata=metadata)
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)
    return final


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """NaN and infinity, wherever they stand, as null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return _number_to_json(value) if isinstance(value, float) else value


def steps(run_folder: str | Path) -> dict[int, Path]:
    """The recorded steps of a run and their files, in order. Empty when nothing was recorded."""
    return _numbered(run_folder, STEP)


def generated(run_folder: str | Path) -> dict[int, Path]:
    """The recordings of generated texts of a run by number, in order."""
    return _numbered(run_folder, GENERATED)


def _numbered(run_folder: str | Path, name: re.Pattern[str]) -> dict[int, Path]:
    folder = Path(run_folder) / FOLDER
    found = [(name.fullmatch(file.name), file) for file in folder.iterdir()] if folder.is_dir() else []
    return dict(sorted((int(match[1]), file) for match, file in found if match))


def thin(run_folder: str | Path, keep: int) -> list[Path]:
    """Remove steps until `keep` are left (at least 2), and return their paths.

    The first and the last stay; of the others the one whose neighbours are closest together goes first, so that what is
    left is spread evenly over the training however often this is called.
    """
    recorded = steps(run_folder)
    numbers = list(recorded)
    removed = []
    while len(numbers) > max(keep, 2):
        gaps = [after - before for before, after in zip(numbers, numbers[2:], strict=False)]
        step = numbers.pop(1 + gaps.index(min(gaps)))
        recorded[step].unlink(missing_ok=True)
        removed.append(recorded[step])
    return removed


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
        return Recording(
            int(metadata["step"]),
            tuple(samples),
            _measures_from_json(json.loads(metadata.get("measures", "{}"))),
            {str(kind): [[str(label) for label in layer] for layer in layers]
             for kind, layers in json.loads(metadata.get("labels", "{}")).items()},
            tuple(_score_from_json(entry) for entry in json.loads(metadata.get("scores", "[]"))),
            _number_from_json(json.loads(metadata.get("deviation", "0.0"))),
        )  # fmt: skip
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
        "links": sample.links,
        "antecedents": None if sample.antecedents is None else asdict(sample.antecedents),
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
        links=_links_from_json(entry.get("links")),
        antecedents=_antecedents_from_json(entry.get("antecedents")),
    )
    if len(sample.losses) != len(sample.predicts) or len(sample.predictions) != len(sample.reads):
        raise ValueError("losses and predictions do not match the tokens")
    return sample


def _links_from_json(entry: Any) -> tuple[tuple[int, int], ...] | None:
    return None if entry is None else tuple((int(source), int(target)) for source, target in entry)


def _antecedents_from_json(entry: Any) -> Antecedents | None:
    if entry is None:
        return None
    if entry["side"] not in ("reads", "source"):
        raise ValueError(f"antecedents stand on a side {entry['side']!r}")
    return Antecedents(entry["side"], tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in entry["pairs"]))


def _score_from_json(entry: Mapping[str, Any]) -> Score:
    kind, layer, head = entry["kind"], entry["layer"], entry["head"]
    return Score(
        str(entry["measure"]),
        str(entry["name"]),
        _number_from_json(entry["value"]),
        None if kind is None else str(kind),
        None if layer is None else int(layer),
        None if head is None else int(head),
    )


def _measures_from_json(entry: Mapping[str, Any]) -> Measures:
    return {
        str(name): {
            str(kind): [[_number_from_json(head) for head in layer] for layer in layers]
            for kind, layers in kinds.items()
        }
        for name, kinds in entry.items()
    }


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
        number, kind, layer, what = int(match[1]), match[2], int(match[3] or 0), match[4] or match[5]
        if number >= len(samples):
            raise ValueError(f"tensor {name} belongs to no sample")
        sample = samples[number]
        queries = len(sample.reads if kind != "encoder" else sample.source or ())
        keys = len(sample.reads if kind == "decoder" else sample.source or ())
        count = heads.setdefault((number, kind), tensor.shape[0] if tensor.ndim else 0) if what != "rollout" else 0
        shapes = {
            None: (count, queries, keys),
            "norms": (count, queries),
            "values": (count, keys),
            "rollout": (queries, keys),
        }
        expected = shapes[what]
        if tensor.dtype != np.float16 or tensor.shape != expected or 0 in expected:
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}; its tokens ask for float16 {list(expected)}"
            )
        if what == "rollout":
            sample.rollout[kind] = tensor
        else:
            arrays = {None: sample.weights, "norms": sample.norms, "values": sample.values}[what]
            arrays[kind, layer] = tensor
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
