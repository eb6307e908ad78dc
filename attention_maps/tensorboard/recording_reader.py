"""Read recordings for the tab: tensors and metadata are loaded on request, measures are cached."""

from __future__ import annotations

import math
import os
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from attention_maps.files import recording_checks as checks
from attention_maps.files.errors import NotThere, Refusal
from attention_maps.files.header import Tensor, opened, read_header, read_tensor
from attention_maps.files.recording_checks import Matrices

REMEMBERED = 64_000_000  # bytes: the measures of 5,000 recordings of 6 layers with 8 heads, or 20,000 smaller ones

Matrix = tuple[str, str, int, int]
"""One number per head: name of the measure, kind, number of layers, number of heads."""


class Measures(NamedTuple):
    """The measures of a recording as one array, a tenth of the memory of nested lists, with its labels and loss, the
    number of examples of each score, and the scores of rules that need no model."""

    matrices: tuple[Matrix, ...]
    numbers: array[float]  # of all matrices, by layer and head; NaN for None
    labels: Matrices
    loss: float | None
    counts: dict[str, int]
    baselines: dict[str, dict[str, float]]

    def unpacked(self) -> Iterator[tuple[str, str, list[list[float | None]]]]:
        """Yield name of the measure, kind and [layer][head] of each matrix."""
        numbers = [None if number != number else number for number in self.numbers]
        start = 0
        for name, kind, layers, heads in self.matrices:
            end = start + layers * heads
            yield name, kind, [numbers[row : row + heads] for row in range(start, end, heads)]
            start = end

    @property
    def size(self) -> int:
        """The approximate size in bytes, with the entry in the cache."""
        heads = sum(len(row) for matrix in self.labels.values() for row in matrix)
        return (
            800
            + 8 * (len(self.numbers) + heads)
            + 100 * (len(self.matrices) + len(self.counts) + sum(map(len, self.baselines.values())))
        )


Version = tuple[str, int, int, int]
"""Version of a file: path, inode, modification time in ns, size in bytes."""


class RecordingReader:
    """Reads recordings. Thread-safe. All methods raise NotThere or Damaged with the file and the defect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measures: OrderedDict[Version, Measures] = OrderedDict()  # least recently used first
        self._size = 0

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
            for measure, kind, matrix in measures.unpacked():
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
            numbers = checks.read_measures(header, kinds)
            scores = checks.read_scores(header, kinds)
            counts = {score["measure"]: score["count"] for score in scores if score["count"]}
            baselines: dict[str, dict[str, float]] = {}
            for score in scores:
                if score["kind"] is None and score["value"] is not None:
                    baselines.setdefault(score["measure"], {})[score["name"]] = score["value"]
            measures = packed(numbers, checks.read_labels(header, kinds), checks.read_loss(header), counts, baselines)
        with self._lock:
            if key not in self._measures:
                # Recordings of one model have the same matrices: one object describes those of all.
                latest = next(reversed(self._measures.values()), measures).matrices
                measures = measures._replace(matrices=latest if latest == measures.matrices else measures.matrices)
                self._measures[key] = measures
                self._size += measures.size
            while self._size > REMEMBERED:
                _, dropped = self._measures.popitem(last=False)
                self._size -= dropped.size
        return measures


def packed(
    measures: dict[str, Matrices],
    labels: Matrices,
    loss: float | None,
    counts: dict[str, int],
    baselines: dict[str, dict[str, float]],
) -> Measures:
    """Pack measures, [layer][head] by measure and kind. Equal labels of all recordings share their memory."""
    found = [(name, kind, matrix) for name, by_kind in measures.items() for kind, matrix in by_kind.items()]
    numbers = (math.nan if n is None else n for _, _, matrix in found for row in matrix for n in row)
    return Measures(
        tuple((name, kind, len(matrix), len(matrix[0])) for name, kind, matrix in found),
        array("d", numbers),
        {kind: [[sys.intern(label) for label in row] for row in matrix] for kind, matrix in labels.items()},
        loss,
        counts,
        baselines,
    )
