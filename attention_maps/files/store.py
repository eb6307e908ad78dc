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

import errno
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import save as serialised

from attention_maps.files import recording_checks as checks
from attention_maps.files.errors import Damaged
from attention_maps.files.file_names import FOLDER, RECORDING
from attention_maps.files.header import Header, read_header, read_tensor
from attention_maps.files.recording_checks import FORMAT, VERSION, Kinds
from attention_maps.record.recording import Antecedents, Prediction, Recording, Sample, Score, Tokens
from configs.whole_file import write_whole


class RecordingError(Exception):
    """A file is not a readable recording; the message names the file and what is wrong with it."""


def path(run_folder: str | Path, step: int) -> Path:
    """Where the recording of a step is kept."""
    return Path(run_folder) / FOLDER / f"step_{step:08d}.safetensors"


def save(recording: Recording, run_folder: str | Path) -> Path:
    """Write the recording of a training step into its run and return the path; it appears complete or not at all.

    Raises OSError naming the file, as `save_generated` does.
    """
    final = path(run_folder, recording.step)
    final.parent.mkdir(parents=True, exist_ok=True)
    # After a power cut `load` reports an empty file; an evaluation need not wait for the disk because of its maps.
    write_whole(final, _serialised(recording), durable=False)
    return final


def save_generated(recording: Recording, run_folder: str | Path) -> Path:
    """Write a recording of generated text into its run, under the next free number, whoever else is writing there."""
    folder = Path(run_folder) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    content = _serialised(recording)
    for number in count(max(generated(run_folder), default=0) + 1):
        final = folder / f"generated_{number:05d}.safetensors"
        try:
            write_whole(final, content, replace=False, durable=False)
        except FileExistsError:
            continue
        return final
    raise AssertionError("numbers do not end")


def _serialised(recording: Recording) -> bytes:
    tensors: dict[str, np.ndarray] = {}
    for number, sample in enumerate(recording.samples):
        for suffix, arrays in (("", sample.weights), ("/norms", sample.norms), ("/values", sample.values)):
            for (kind, layer), array in arrays.items():
                tensors[f"{number}/{kind}/{layer}{suffix}"] = np.ascontiguousarray(array)
        for kind, array in sample.rollout.items():
            tensors[f"{number}/{kind}/rollout"] = np.ascontiguousarray(array)
    metadata = {"format": FORMAT, "version": VERSION, "step": str(recording.step)} | {
        "samples": _json(_finite([_sample_to_json(sample) for sample in recording.samples])),
        "measures": _json(_finite(recording.measures)),
        "labels": _json(recording.labels),
        "scores": _json(_finite([asdict(score) for score in recording.scores])),
        "deviation": _json(_finite(recording.deviation)),
    }
    return serialised(tensors, metadata)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """A diverged model's NaN and infinity, wherever they are, as null: browsers refuse the word NaN."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def steps(run_folder: str | Path) -> dict[int, Path]:
    """The recorded steps of a run and their files, in order. Empty when nothing was recorded."""
    return _numbered(run_folder, "step")


def generated(run_folder: str | Path) -> dict[int, Path]:
    """The recordings of generated texts of a run by number, in order."""
    return _numbered(run_folder, "generated")


def _numbered(run_folder: str | Path, what: str) -> dict[int, Path]:
    folder = Path(run_folder) / FOLDER
    found = [(RECORDING.fullmatch(file.name), file) for file in folder.iterdir()] if folder.is_dir() else []
    return dict(sorted((int(match[what]), file) for match, file in found if match and match[what]))


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

    Raises FileNotFoundError and other OSErrors naming the file, or RecordingError for a truncated, damaged or foreign
    file; nothing in it is trusted.
    """
    with _opened(Path(file)) as (stream, header):
        recording, _ = _without_maps(header)
        for one in sorted(checks.maps(header), key=lambda one: (one.sample, one.kind, one.layer or 0)):
            sample = recording.samples[one.sample]
            numbers = np.frombuffer(bytearray(read_tensor(stream, one.tensor)), "<f2").reshape(one.tensor.shape)
            if one.layer is None:
                sample.rollout[one.kind] = numbers
            else:
                arrays = {"weights": sample.weights, "norms": sample.norms, "values": sample.values}[one.what]
                arrays[one.kind, one.layer] = numbers
    return recording


def outline(file: str | Path) -> tuple[Recording, Kinds]:
    """A recording without its maps, and how many layers and heads of each kind it has. Raises what `load` raises."""
    with _opened(Path(file)) as (_, header):
        return _without_maps(header)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, Header]]:
    """A recording and its header; whatever is found to be wrong with it becomes a RecordingError."""
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such recording", str(file))
    try:
        with file.open("rb") as stream:
            header = read_header(stream)
            checks.check_format(header)
            yield stream, header
    except Damaged as damage:
        raise RecordingError(f"{file}: {damage}") from damage


def _without_maps(header: Header) -> tuple[Recording, Kinds]:
    meta = checks.read_meta(header)
    for by_kind in meta["measures"].values():
        for layers in by_kind.values():
            layers[:] = [[_number_from_json(head) for head in layer] for layer in layers]
    recording = Recording(
        meta["step"],
        tuple(_sample_from_json(entry) for entry in meta["samples"]),
        meta["measures"],
        meta["labels"],
        tuple(Score(**score | {"value": _number_from_json(score["value"])}) for score in meta["scores"]),
        checks.read_deviation(header),
    )
    return recording, meta["kinds"]


def _sample_to_json(sample: Sample) -> dict[str, Any]:
    return {
        "name": sample.name,
        "reads": _tokens_to_json(sample.reads),
        "predicts": _tokens_to_json(sample.predicts),
        "source": None if sample.source is None else _tokens_to_json(sample.source),
        "losses": sample.losses,
        "predictions": [[[p.id, p.piece, p.probability] for p in row] for row in sample.predictions],
        "length": sample.length,
        "source_length": sample.source_length,
        "truncated": sample.truncated,
        "links": sample.links,
        "antecedents": None if sample.antecedents is None else asdict(sample.antecedents),
    }


def _sample_from_json(entry: Mapping[str, Any]) -> Sample:
    links, antecedents = entry["links"], entry["antecedents"]
    return Sample(
        reads=_tokens_from_json(entry["reads"]),
        predicts=_tokens_from_json(entry["predicts"]),
        source=None if entry["source"] is None else _tokens_from_json(entry["source"]),
        losses=tuple(_number_from_json(loss) for loss in entry["losses"]),
        predictions=tuple(
            tuple(Prediction(token, piece, _number_from_json(chance)) for token, piece, chance in row)
            for row in entry["predictions"]
        ),
        weights={},
        norms={},
        name=entry["name"],
        length=entry["length"],
        source_length=entry["source_length"],
        links=None if links is None else tuple((source, target) for source, target in links),
        antecedents=antecedents and Antecedents(antecedents["side"], tuple(map(tuple, antecedents["pairs"]))),
    )


def _number_from_json(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _tokens_to_json(tokens: Tokens) -> dict[str, Any]:
    return {"ids": tokens.ids, "pieces": tokens.pieces, "special": [int(mark) for mark in tokens.special]}


def _tokens_from_json(entry: Mapping[str, Any]) -> Tokens:
    return Tokens(tuple(entry["ids"]), tuple(entry["pieces"]), tuple(map(bool, entry["special"])))
