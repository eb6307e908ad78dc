"""Read recordings for the tab: tensors and metadata are loaded on request, measures are cached."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from attention_maps.files import recording_checks as checks
from attention_maps.files.errors import NotThere, Refusal
from attention_maps.files.header import Tensor, opened, read_header, read_tensor
from attention_maps.files.recording_checks import Matrices

REMEMBERED = 4_000_000  # numbers of 32 bytes: the measures of about 3,000 recordings of 6 layers with 8 heads

Measures = dict[str, Matrices]
"""One number per head, [layer][head], by measure and kind."""

Version = tuple[str, int, int, int]
"""Version of a file: path, inode, modification time in ns, size in bytes."""


class RecordingReader:
    """Reads recordings. Thread-safe. All methods raise NotThere or Damaged with the file and the defect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measures: OrderedDict[Version, Measures] = OrderedDict()  # least recently used first
        self._weight = 0

    def meta(self, path: str) -> dict[str, Any]:
        """Read everything except the tensors: step, samples, kinds, measures, labels and scores."""
        with opened(path) as file:
            return checks.read_meta(read_header(file))

    def tensor(self, path: str, sample: int, kind: str, layer: int, what: str) -> tuple[Tensor, bytes]:
        """Read one tensor and its bytes, little-endian float16 in C order; `layer` is ignored for the rollout."""
        with opened(path) as file:
            header = read_header(file)
            name = checks.tensor_name(sample, kind, layer, what)
            if name not in header.tensors:
                raise NotThere(f"there is no tensor {name} in this recording")
            checks.check_tensor(name, header.tensors[name], what)
            return header.tensors[name], read_tensor(file, header.tensors[name])

    def curves(self, paths: Mapping[int, str]) -> dict[str, Any]:
        """Read the measures of recordings by step: {"steps": [step, …], "measures": {measure: {kind: [per step]}}}, for
        each step a matrix [[number per head] per layer] or None. Unreadable recordings are skipped."""
        read: dict[int, Measures] = {}
        for step, path in paths.items():
            try:
                read[step] = self._measures_of(path)
            except Refusal:
                continue
        curves: dict[str, dict[str, list[Any]]] = {}
        for number, measures in enumerate(read.values()):
            for measure, by_kind in measures.items():
                for kind, matrix in by_kind.items():
                    curves.setdefault(measure, {}).setdefault(kind, [None] * len(read))[number] = matrix
        return {"steps": list(read), "measures": curves}

    def _measures_of(self, path: str) -> Measures:
        with opened(path) as file:
            status = os.fstat(file.fileno())
            key = path, status.st_ino, status.st_mtime_ns, status.st_size
            with self._lock:
                if key in self._measures:
                    self._measures.move_to_end(key)
                    return self._measures[key]
            header = read_header(file)
            measures = checks.read_measures(header, checks.read_kinds(header))
        with self._lock:
            if key not in self._measures:
                self._measures[key] = measures
                self._weight += _weight(measures)
            while self._weight > REMEMBERED:
                _, dropped = self._measures.popitem(last=False)
                self._weight -= _weight(dropped)
        return measures


def _weight(measures: Measures) -> int:
    """Return the approximate number of values, including the characters of names."""
    rows = (row for by_kind in measures.values() for matrix in by_kind.values() for row in matrix)
    return 10 + sum(map(len, measures)) + sum(map(len, rows))
