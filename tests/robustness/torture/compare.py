"""Compare the folders of two runs: everything but measured times must be equal to the last bit."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG, parse_session_start_info_plugin_data
from torch import Tensor

from tests.robustness.torture.recipes import RUN

TIMES = {
    "seconds",
    "step_seconds",
    "evaluated_seconds",
    "evaluation_seconds",
    "recording_seconds",
    "last_recording_seconds",
    "tokens_per_second",
}
"""Values that are measured, and differ between any two runs."""

UNEQUAL = TIMES | {"files", "crc32", "save"}
"""Also the checksums of files that contain such values, and the random id of a checkpoint."""

NOT_COMPARED = re.compile(r"(^|/)(events\.out\.tfevents\..*|log\.txt|.*\.lock|output\.txt)$")
EVERYTHING = {"scalars": 0, "images": 0, "tensors": 0}
"""TensorBoard keeps all points of these kinds in memory."""


def differences(ours: Path, reference: Path) -> list[str]:
    """Return one line for each difference between two folders with a run and its cache."""
    result = []
    mine, theirs = contents(ours), contents(reference)
    for name in sorted(mine.keys() ^ theirs.keys()):
        result.append(f"{name}: {'is left over' if name in mine else 'is missing'}")
    for name in sorted(mine.keys() & theirs.keys()):
        if not same(loaded(mine[name]), loaded(theirs[name])):
            result.append(f"{name}: differs")
    for folder in (RUN, f"{RUN}/val"):
        result += [f"{folder}: {line}" for line in differences_of_points(ours / folder, reference / folder)]
    return result


def contents(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that are compared, by their relative names; links count as files."""
    result = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if (path.is_symlink() or not path.is_dir()) and not NOT_COMPARED.search(name):
            result[name] = path
    return result


def loaded(path: Path) -> Any:
    """Return the content of a file without measured times, and without the random id of a save."""
    if path.is_symlink():
        return str(path.readlink())
    if path.name == "state.pt":
        return without_times(torch.load(path, weights_only=True))
    if path.suffix == ".safetensors":
        with safe_open(path, "pt") as file:
            metadata = (file.metadata() or {}) | {"save": ""}
            if "about" in metadata:  # of a recording, whose date may be another one
                metadata["about"] = json.loads(metadata["about"]) | {"date": ""}
            return metadata, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    if path.name in ("metrics.jsonl", "state.json"):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines() if path.suffix == ".jsonl" else [text]
        return [without_times(json.loads(line)) for line in lines]
    return path.read_bytes()


def without_times(value: Any) -> Any:
    """Return nested dicts and lists without the measured values and checksums of files that contain them."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in UNEQUAL}
    if isinstance(value, list | tuple):
        return [without_times(item) for item in value]
    return value


def same(a: Any, b: Any) -> bool:
    """Whether two nested values are equal to the last bit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


Point = tuple[str, int]
"""Tag and step."""


def differences_of_points(ours: Path, reference: Path) -> list[str]:
    """Return one line for each difference between the points of all event files of two folders."""
    mine, theirs = points(ours), points(reference)
    result = [f"{tag} has {len(values)} points at step {step}" for (tag, step), values in mine.items() if values[1:]]
    for tag, count in Counter(tag for tag, _ in theirs.keys() - mine.keys()).items():
        result.append(f"{tag} lacks {count} points")
    for tag, count in Counter(tag for tag, _ in mine.keys() - theirs.keys()).items():
        result.append(f"{tag} has {count} points too many")
    for point in mine.keys() & theirs.keys():
        if mine[point][0] != theirs[point][0] and not point[0].startswith("speed/"):
            result.append("{} differs at step {}".format(*point))
    shown, expected = as_tensorboard_shows(ours), as_tensorboard_shows(reference)
    result += [f"TensorBoard shows other steps of {tag}" for tag in expected if shown.get(tag) != expected[tag]]
    return sorted(result)


def points(folder: Path) -> dict[Point, list[Any]]:
    """Return the contents of every point of all event files of a folder."""
    result: dict[Point, list[Any]] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                result.setdefault((value.tag, event.step), []).append(content(value))
    return result


def content(value: Any) -> Any:
    """Return the content of a point, without times."""
    if value.tag == SESSION_START_INFO_TAG:
        settings = parse_session_start_info_plugin_data(value.metadata.plugin_data.content).hparams
        return sorted((key, str(setting)) for key, setting in settings.items())
    if value.tag == "about/text_summary":  # Trained for 40 steps, 16k tokens, in 0:03.
        return re.sub(rb"in \d+:[\d:]+", b"", value.tensor.string_val[0])
    return value.tensor.SerializeToString(deterministic=True)


def as_tensorboard_shows(folder: Path) -> dict[str, list[int]]:
    """Return the steps of each tag that TensorBoard's own reader keeps."""
    events = EventAccumulator(str(folder), size_guidance=EVERYTHING).Reload()
    readers = {"scalars": events.Scalars, "tensors": events.Tensors, "images": events.Images}
    tags = events.Tags()
    return {tag: sorted(event.step for event in read(tag)) for kind, read in readers.items() for tag in tags[kind]}
