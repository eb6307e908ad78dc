"""Read the attention of every head from some tokens to others at all recorded steps."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from attention_maps.files import recording_checks as checks
from attention_maps.files.errors import NotThere, Refusal
from attention_maps.files.header import Header, Tensor, opened, read_header
from attention_maps.files.json_checks import need

LONGEST = 512
"""Maximum number of tokens on either side: a word, or all mentions of a noun."""
POSITIONS = re.compile(r"\d{1,5}(?:,\d{1,5})*")

MOST_WEIGHTS = 20_000_000
"""Maximum number of weights read for an answer, which takes a few seconds."""

REMEMBERED = 2_000
_TOKENS: dict[tuple[str, int, int, int], tuple[int, ...]] = {}
"""Hashes of the tokens of each sample by version of the file: parsing them takes longer than reading the weights."""


def parse_positions(name: str, text: str) -> list[int]:
    """Parse `3` or `3,4,9`. Raises Refusal."""
    positions = sorted({int(position) for position in text.split(",")}) if POSITIONS.fullmatch(text) else []
    if not 0 < len(positions) <= LONGEST:
        raise Refusal(
            f"'{name}' must be a position such as 3, or at most {LONGEST} of them such as 3,4,9, not '{text}'"
        )
    return positions


class Pair(NamedTuple):
    """Arguments of a pair request."""

    sample: int
    kind: str
    query: list[int]
    key: list[int]
    values: bool
    """Whether weights are multiplied by value norms."""


def pair_weights(paths: Mapping[int, str], chosen: str, pair: Pair) -> dict[str, Any]:
    """Return the weights from `query` to `key`, summed over keys and averaged over queries: {"chosen": [[head, …] per
    layer], "steps": [step, …], "weights": [[[head, …] per layer] per step]} of the recording `chosen`, and of the
    recordings `paths` whose sample has the same tokens; unreadable ones are skipped. If all would be more than
    MOST_WEIGHTS, evenly spaced ones are read. Raises NotThere or Damaged for `chosen`, and Refusal if it alone has
    more."""
    chosen_weights, tokens, count = _read(chosen, pair, MOST_WEIGHTS)
    steps, weights = [], []
    for step in _spaced(list(paths), MOST_WEIGHTS // max(count, 1)):
        try:
            step_weights, others, _ = _read(paths[step], pair, count)
        except Refusal:
            continue
        if others == tokens:
            steps.append(step)
            weights.append(step_weights)
    return {"chosen": chosen_weights, "steps": steps, "weights": weights}


def _spaced(steps: list[int], count: int) -> list[int]:
    """Return at most `count` of the steps, evenly spaced, with the first and the last."""
    if count >= len(steps):
        return steps
    return [steps[round(number * (len(steps) - 1) / max(count - 1, 1))] for number in range(count)]


def _read(path: str, pair: Pair, most: int) -> tuple[list[list[float]], int, int]:
    """Return the weights [layer][head] in one file, a hash of the tokens of the sample, and the number of weights that
    were read. Raises Refusal before reading more than `most`."""
    with opened(path) as file:
        status = os.fstat(file.fileno())
        header = read_header(file)
        known = (path, status.st_ino, status.st_mtime_ns, status.st_size)
        tokens = _TOKENS.get(known)
        if tokens is None:
            while len(_TOKENS) >= REMEMBERED:
                _TOKENS.pop(next(iter(_TOKENS)), None)
            tokens = _TOKENS[known] = tuple(map(_digest, checks.read_samples(header)))
        if pair.sample >= len(tokens):
            raise NotThere(f"there is no sample {pair.sample} in this recording")
        count = layers = 0
        while (name := checks.tensor_name(pair.sample, pair.kind, layers, "weights")) in header.tensors:
            checks.check_tensor(name, header.tensors[name], "weights")
            heads, _, keys = header.tensors[name].shape
            count, layers = count + heads * keys * len(pair.query), layers + 1
        if not layers:
            raise NotThere(f"there are no {pair.kind} maps of sample {pair.sample} in this recording")
        if count > most:
            raise Refusal(f"this reads {count:,} weights, more than the limit of {most:,}: choose fewer query tokens")
        return [_heads(file, header, layer, pair) for layer in range(layers)], tokens[pair.sample], count


def _digest(sample: dict[str, Any]) -> int:
    """Return a hash of the tokens of both sides."""
    source = sample["source"]
    return hash((tuple(sample["reads"]["ids"]), source and tuple(source["ids"])))


def _heads(file: BinaryIO, header: Header, layer: int, pair: Pair) -> list[float]:
    """Return the weight in each head of a layer."""
    name = checks.tensor_name(pair.sample, pair.kind, layer, "weights")
    tensor = header.tensors[name]
    heads, queries, keys = tensor.shape
    if pair.query[-1] >= queries or pair.key[-1] >= keys:
        raise NotThere(f"{name} has {queries} rows and {keys} columns: no position {pair.query[-1]}, {pair.key[-1]}")
    norms = _value_norms(file, header, layer, pair) if pair.values else None
    head_weights = []
    for head in range(heads):
        total = 0.0
        for row in pair.query:
            weights = _numbers(file, tensor, (head * queries + row) * keys, keys)
            whole = 1.0
            if norms:  # a row is rescaled to sum to 1
                weights = [weight * norm for weight, norm in zip(weights, norms[head * keys :], strict=False)]
                whole = sum(weights) or 1.0
            total += sum(weights[column] for column in pair.key) / whole
        head_weights.append(round(total / len(pair.query), 5))
    return head_weights


def _value_norms(file: BinaryIO, header: Header, layer: int, pair: Pair) -> list[float]:
    """Return the norms of the values [H*K] of a layer."""
    name = checks.tensor_name(pair.sample, pair.kind, layer, "values")
    if name not in header.tensors:
        raise NotThere("this recording has no value norms: it was recorded by an older version")
    checks.check_tensor(name, header.tensors[name], "values")
    heads, keys = header.tensors[name].shape
    return _numbers(file, header.tensors[name], 0, heads * keys)


def _numbers(file: BinaryIO, tensor: Tensor, first: int, count: int) -> list[float]:
    """Read numbers of a tensor; NaN, of a model that diverged, becomes 0."""
    file.seek(tensor.start + 2 * first)
    content = file.read(2 * count)
    need(len(content) == 2 * count, "truncated while it was being read")
    return [value if value == value else 0.0 for value in struct.unpack(f"<{count}e", content)]
