"""Collect the data embedded in an exported page: all responses of the tab's server, as one JSON object.

    {"index": {"runs": {run: {"steps": [step, …], "generated": [number, …]}}},
     "meta": {"run|recording": …}, "curves": {run: …},
     "tensors": {"run|recording|sample|kind|layer|what": {"shape": […], "dtype": "F16", "data": base64 of its bytes}}}

The rollout covers all layers, so its `layer` is empty; attribution and logits belong to no kind either.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from attention_maps.files.file_names import numbered
from attention_maps.files.header import Tensor, opened, read_header, read_tensor
from attention_maps.files.recording_checks import maps, read_meta, readouts
from attention_maps.tensorboard.recording_reader import RecordingReader


def page_data(run: str, files: Mapping[str, Path], sample: int | None, measured: Mapping[int, Path]) -> dict[str, Any]:
    """Collect the data of the recordings `files` of one run, with all samples or only `sample`, renumbered to 0.

    Recordings without the sample, or without any samples, are skipped: they have no map to draw. `measured`: recordings
    by step whose measures form the curves. Raises `files.errors.Refusal` for an incomplete or invalid recording.
    """
    metas, tensors, carried = {}, {}, []
    for name, path in files.items():
        with opened(str(path)) as file:
            header = read_header(file)
            meta = read_meta(header)
            numbers = [number for number in range(len(meta["samples"])) if sample in (None, number)]
            if not numbers:
                continue
            carried.append(name)
            samples = [meta["samples"][number] for number in numbers]
            metas[f"{run}|{name}"] = {"run": run, "recording": name, **meta, "samples": samples}
            for entry in (entry for entry in maps(header) if entry.sample in numbers):
                layer = "" if entry.layer is None else entry.layer
                key = f"{run}|{name}|{numbers.index(entry.sample)}|{entry.kind}|{layer}|{entry.what}"
                tensors[key] = _embedded(file, entry.tensor)
            for number in numbers:
                for what, tensor in readouts(header, number):
                    key = f"{run}|{name}|{numbers.index(number)}|||{what}"
                    tensors[key] = _embedded(file, tensor)
    steps, generated = numbered((files[name].name, name) for name in carried)
    return {
        "index": {"runs": {run: {"steps": list(steps), "generated": list(generated)}}, "logdir": ""},
        "meta": metas,
        "tensors": tensors,
        "curves": {run: RecordingReader().curves({number: str(path) for number, path in measured.items()})},
    }


def _embedded(file: BinaryIO, tensor: Tensor) -> dict[str, Any]:
    content = base64.b64encode(read_tensor(file, tensor)).decode("ascii")
    return {"shape": tensor.shape, "dtype": tensor.dtype, "data": content}


def thinned(names: Sequence[str], chosen: str, count: int) -> list[str]:
    """Select `count` evenly spaced names from first to last; `chosen` replaces the name nearest to it."""
    if count >= len(names):
        return list(names)
    if count == 1:
        return [chosen]
    places = [round(number * (len(names) - 1) / (count - 1)) for number in range(count)]
    if chosen in names:
        wanted = names.index(chosen)
        nearest = min(range(count), key=lambda number: abs(places[number] - wanted))
        places[nearest] = wanted
    return [names[place] for place in places]
