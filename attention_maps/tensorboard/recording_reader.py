"""Read recordings for the tab: tensors and metadata are loaded on request, measures are cached."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from attention_maps.files import recording_checks as checks
from attention_maps.files.errors import NotThere, Refusal
from attention_maps.files.header import Tensor, opened, read_header, read_tensor
from attention_maps.files.recording_checks import Matrices

REMEMBERED = 1_000
"""Number of recordings whose measures are kept in memory: five runs of 200 steps."""


class Measures(NamedTuple):
    """Measures, labels and scores of a recording, as shown by the curves."""

    matrices: dict[str, Matrices]
    """One number per head, or None for NaN, by measure and kind: [layer][head]."""
    labels: Matrices
    loss: float | None
    counts: dict[str, int]
    """Number of examples of each score."""
    baselines: dict[str, dict[str, float]]
    """Scores of rules that need no model, by measure and rule."""


Version = tuple[str, int, int, int]
"""Version of a file: path, inode, modification time in ns, size in bytes."""


class RecordingReader:
    """Reads recordings. Thread-safe. All methods raise NotThere or Damaged with the file and the defect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measures: OrderedDict[Version, Measures] = OrderedDict()  # least recently used first

    def meta(self, path: str) -> dict[str, Any]:
        """Read everything except the tensors: step, samples, kinds, measures, labels and scores."""
        with opened(path) as file:
            return checks.read_meta(read_header(file))

    def tensor(self, path: str, sample: int, kind: str, layer: int, what: str) -> tuple[Tensor, bytes]:
        """Read one tensor and its bytes, little-endian in C order; `layer` is ignored for the rollout."""
        with opened(path) as file:
            header = read_header(file)
            name = checks.tensor_name(sample, kind, layer, what)
            if name not in header.tensors:
                raise NotThere(f"there is no tensor {name} in this recording")
            checks.check_tensor(name, header.tensors[name], what)
            return header.tensors[name], read_tensor(file, header.tensors[name])

    def curves(self, paths: Mapping[int, str]) -> dict[str, Any]:
        """Read the measures of recordings by step: {"steps": [step, …], "measures": {measure: {kind: [per step]}},
        "labels": {kind: [per step]}, "loss": [per step], "unreadable": [step, …], "counts": {measure: number},
        "baselines": {measure: {rule: score}}}, for each readable step a matrix [[number or label per head] per layer]
        or None. `counts` and `baselines`: the number of examples of the last score of a measure, and the last scores of
        rules that need no model."""
        read: dict[int, Measures] = {}
        for step, path in paths.items():
            try:
                read[step] = self._measures_of(path)
            except Refusal:
                continue
        curves: dict[str, dict[str, list[Any]]] = {}
        for number, measures in enumerate(read.values()):
            for measure, by_kind in measures.matrices.items():
                for kind, matrix in by_kind.items():
                    curves.setdefault(measure, {}).setdefault(kind, [None] * len(read))[number] = matrix
        kinds = dict.fromkeys(kind for measures in read.values() for kind in measures.labels)
        return {
            "steps": list(read),
            "measures": curves,
            "labels": {kind: [measures.labels.get(kind) for measures in read.values()] for kind in kinds},
            "loss": [measures.loss for measures in read.values()],
            "unreadable": [step for step in paths if step not in read],
            "counts": {name: count for measures in read.values() for name, count in measures.counts.items()},
            "baselines": {name: rules for measures in read.values() for name, rules in measures.baselines.items()},
        }

    def _measures_of(self, path: str) -> Measures:
        with opened(path) as file:
            status = os.fstat(file.fileno())
            key = path, status.st_ino, status.st_mtime_ns, status.st_size
            with self._lock:
                if key in self._measures:
                    self._measures.move_to_end(key)
                    return self._measures[key]
            header = read_header(file)
            kinds = checks.read_kinds(header)
            scores = checks.read_scores(header, kinds)
            counts = {score["measure"]: score["count"] for score in scores if score["count"]}
            baselines: dict[str, dict[str, float]] = {}
            for score in scores:
                if score["kind"] is None and score["value"] is not None:
                    baselines.setdefault(score["measure"], {})[score["name"]] = score["value"]
            matrices, labels = checks.read_measures(header, kinds), checks.read_labels(header, kinds)
            measures = Measures(matrices, labels, checks.read_loss(header), counts, baselines)
        with self._lock:
            self._measures[key] = measures
            while len(self._measures) > REMEMBERED:
                self._measures.popitem(last=False)
        return measures
