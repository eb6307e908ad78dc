"""Validate the structure of a recording. All functions raise Damaged if it is invalid.

Tensors are float16: `<sample>/<kind>/<layer>` [H,Q,K] with `<sample>/<kind>/<layer>/norms` [H,Q] and `/values` [H,K],
and `<sample>/<kind>/rollout` [Q,K]; or float32: `<sample>/attribution` [N,P,Q] and
`<sample>/logits` [N,Q]. Metadata are JSON strings.
H heads, Q queries, K keys, N candidate tokens, P parts of the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from attention_maps.files.file_names import KINDS
from attention_maps.files.header import Header, Tensor
from attention_maps.files.json_checks import is_list, is_number_or_none, is_size, is_text, is_whole, need, parse_json
from attention_maps.files.sample_checks import check_sample

MOST_MEASURES = 64
LONGEST_NAME = 64  # characters of a measure's name; curves repeat all names for each step

LONGEST_TEXTS = {"title": 100, "model": 300, "data": 300, "command": 200, "date": 20, "licence": 100}
"""What a recording says of its model, with the limit of each text in characters: about a thousand in all, since every
step repeats them."""

AXES = {"weights": "HQK", "norms": "HQ", "values": "HK", "rollout": "QK", "attribution": "NPQ", "logits": "NQ"}
"""Axes of each stored tensor type."""
READOUTS = ("attribution", "logits")
"""Tensors of a sample as a whole: contributions to the logits of N tokens by P parts of the model, and the logits."""
PARTS = ("embedding", "decoder", "cross", "mlp", "bias")

NUMBER = "0|[1-9][0-9]{0,4}"
NAME = re.compile(rf"({NUMBER})/({'|'.join(KINDS)})/(?:({NUMBER})(?:/(norms|values))?|rollout)")

Kinds = dict[str, dict[str, int]]
"""Numbers of layers and heads of the recorded kinds: {"cross": {"layers": 3, "heads": 4}}."""

Matrices = dict[str, list[list[Any]]]
"""One value per head, by kind: [layer][head]."""


def tensor_name(sample: int, kind: str, layer: int, what: str) -> str:
    """Return the name of the tensor of type `what`, a key of AXES. The rollout has no layer, READOUTS have no kind
    either: these arguments are ignored."""
    if what in READOUTS:
        return f"{sample}/{what}"
    if what == "rollout":
        return f"{sample}/{kind}/rollout"
    return f"{sample}/{kind}/{layer}" + ("" if what == "weights" else f"/{what}")


def read_meta(header: Header) -> dict[str, Any]:
    """Read everything except the tensors: step, samples, kinds, measures, labels, scores, parts and what it says of
    the model."""
    kinds = read_kinds(header)
    samples = read_samples(header)
    read_deviation(header)  # not part of it, but checked: all readers refuse the same files
    return {
        "step": read_step(header),
        "samples": samples,
        "kinds": kinds,
        "parts": read_parts(header, samples),
        "measures": read_measures(header, kinds),
        "labels": read_labels(header, kinds),
        "scores": read_scores(header, kinds),
        "loss": read_loss(header),
        "layer_numbers": read_layer_numbers(header, kinds),
        "about": read_about(header),
    }


def check_tensor(name: str, tensor: Tensor, what: str) -> None:
    """Reject a tensor that is empty, has another format, or other axes than `what`, a key of AXES."""
    formats = ("F32", "F16") if what in READOUTS else ("F16",)
    right = tensor.dtype in formats and len(tensor.shape) == len(AXES[what]) and 0 not in tensor.shape
    need(right, f"{name} is {tensor.dtype} {list(tensor.shape)} instead of {formats[0]} [{','.join(AXES[what])}]")


def read_step(header: Header) -> int:
    """Read the training step."""
    text = header.metadata.get("step", "")
    need(text.isascii() and text.isdecimal() and len(text) < 16, "its step is not an integer")
    return int(text)


def read_kinds(header: Header) -> Kinds:
    """Read the numbers of layers and heads of each kind, and check that layers are contiguous and that all samples have
    the same maps. If there are no samples, the numbers come from the measures."""
    heads: dict[int, dict[str, dict[int, int]]] = {}  # by sample, kind, layer
    for name, tensor, sample, kind, layer, what in maps(header):
        check_tensor(name, tensor, what)
        if layer is not None:
            count = heads.setdefault(sample, {}).setdefault(kind, {}).setdefault(layer, tensor.shape[0])
            whole = count == tensor.shape[0] and tensor_name(sample, kind, layer, "weights") in header.tensors
            need(whole, f"{name} does not match its weights")
    if not heads:
        need(_parsed(header, "samples", None) == [], "it contains no maps")
        return _measured_kinds(header)
    for sample, kinds in heads.items():
        for kind, layers in kinds.items():
            where = f"{kind} maps of sample {sample}"
            need(layers.keys() == set(range(len(layers))), f"layers are missing among the {where}")
            need(len(set(layers.values())) == 1, f"the {where} have different numbers of heads")
        need(sample in range(len(heads)) and kinds == heads.get(0), "its samples do not have the same maps")
    first = heads[0]
    return {kind: {"layers": len(first[kind]), "heads": first[kind][0]} for kind in KINDS if kind in first}


def _measured_kinds(header: Header) -> Kinds:
    """Shapes of the first matrix of each kind; `read_measures` compares all others with these."""
    kinds: Kinds = {}
    measures = _parsed(header, "measures", {})
    for by_kind in measures.values() if isinstance(measures, dict) else ():
        for kind, matrix in by_kind.items() if isinstance(by_kind, dict) else ():
            if kind in KINDS and isinstance(matrix, list) and matrix and isinstance(matrix[0], list) and matrix[0]:
                kinds.setdefault(kind, {"layers": len(matrix), "heads": len(matrix[0])})
    need(bool(kinds), "it contains neither maps nor measures")
    return {kind: kinds[kind] for kind in KINDS if kind in kinds}


def read_samples(header: Header) -> list[dict[str, Any]]:
    """Read the samples, whose token counts match the rows and columns of their maps; the list may be empty."""
    listed = _parsed(header, "samples", None)
    need(isinstance(listed, list), "it contains no samples")
    samples = [check_sample(entry, f"sample {number}") for number, entry in enumerate(listed)]
    mapped = set()
    for name, tensor, number, kind, _, what in maps(header):
        need(number < len(samples), f"{name} belongs to no sample")
        reads, source = (len((samples[number][side] or {"ids": ()})["ids"]) for side in ("reads", "source"))
        sizes = {"Q": source if kind == "encoder" else reads, "K": reads if kind == "decoder" else source}
        expected = [sizes.get(axis, size) for axis, size in zip(AXES[what], tensor.shape, strict=True)]
        shape = list(tensor.shape)
        need(shape == expected, f"{name} has the shape {shape}, its tokens require {expected}")
        if what == "weights":
            mapped.add(number)
    need(len(mapped) == len(samples), "it contains samples without maps")
    return samples


def read_measures(header: Header, kinds: Kinds) -> dict[str, Matrices]:
    """Read, for each measure and kind, one number per head, or None for NaN."""
    measures = _parsed(header, "measures", {})
    need(isinstance(measures, dict), "its measures are not a JSON object")
    need(len(measures) <= MOST_MEASURES, f"it has {len(measures)} measures, more than the limit of {MOST_MEASURES}")
    need(all(len(name) <= LONGEST_NAME for name in measures), f"a measure's name has over {LONGEST_NAME} characters")
    return {name: _matrices(by_kind, kinds, is_number_or_none, f"measure {name}") for name, by_kind in measures.items()}


def read_labels(header: Header, kinds: Kinds) -> Matrices:
    """Read, for each kind, the label of every head, "" if it has none."""
    return _matrices(_parsed(header, "labels", {}), kinds, is_text, "labels")


def read_scores(header: Header, kinds: Kinds) -> list[dict[str, Any]]:
    """Read the scores against gold labels; the kind of a baseline is None."""
    scores = _parsed(header, "scores", [])
    need(isinstance(scores, list), "its scores are not a list")
    return [_score(score, kinds, f"score {number}") for number, score in enumerate(scores)]


def read_parts(header: Header, samples: list[dict[str, Any]]) -> list[list[Any]]:
    """Read the parts of the model, [kind, layer, head] each, whose contributions to logits are recorded, and check the
    shapes of the contributions."""
    parts = _parsed(header, "parts", [])
    need(isinstance(parts, list) and all(map(_is_part, parts)), "its parts are invalid")
    for number, sample in enumerate(samples):
        rows = sample["predictions"]
        expected = {"P": len(parts), "Q": len(rows), "N": 1 + (len(rows[0]) if rows else 0)}
        for what, tensor in readouts(header, number):
            name = tensor_name(number, "", 0, what)
            check_tensor(name, tensor, what)
            shape = [expected[axis] for axis in AXES[what]]
            need(list(tensor.shape) == shape, f"{name} has the shape {list(tensor.shape)} instead of {shape}")
    return parts


def _is_part(part: Any) -> bool:
    right = isinstance(part, list) and len(part) == 3 and part[0] in PARTS
    return right and is_whole(part[1]) and is_whole(part[2])


def readouts(header: Header, sample: int) -> Iterator[tuple[str, Tensor]]:
    """Yield type and tensor of the recorded contributions to the logits of a sample."""
    for what in READOUTS:
        if (name := tensor_name(sample, "", 0, what)) in header.tensors:
            yield what, header.tensors[name]


def read_deviation(header: Header) -> float:
    """Read the largest difference between the maps and the model's own computation; 0 if unknown, NaN if null."""
    deviation = _parsed(header, "deviation", 0.0)
    need(is_number_or_none(deviation), "its deviation is not a number")
    return math.nan if deviation is None else float(deviation)


def read_loss(header: Header) -> float | None:
    """Read the mean loss per token of the examples; None if unknown, and if the model diverged."""
    loss = _parsed(header, "loss", None)
    need(is_number_or_none(loss), "its loss is not a number")
    return None if loss is None else float(loss)


def read_layer_numbers(header: Header, kinds: Kinds) -> dict[str, list[int]]:
    """Read the model's own numbers of the layers of a kind, ascending; only of kinds of which some are not recorded."""
    numbers_by_kind = _parsed(header, "layer_numbers", {})
    need(isinstance(numbers_by_kind, dict) and numbers_by_kind.keys() <= kinds.keys(), "its layer numbers are invalid")
    for kind, numbers in numbers_by_kind.items():
        right = is_list(numbers, is_size) and numbers == sorted(set(numbers)) and len(numbers) == kinds[kind]["layers"]
        need(right, f"its layer numbers of {kind} are not those of {kinds[kind]['layers']} layers")
    return numbers_by_kind


def read_about(header: Header) -> dict[str, str]:
    """Read what a recording says of its model, by the keys of LONGEST_TEXTS; recordings of older versions say
    nothing."""
    about = _parsed(header, "about", {})
    need(isinstance(about, dict), "what it says of its model is not a JSON object")
    told = {key: about[key] for key in LONGEST_TEXTS if key in about}
    for key, text in told.items():
        longest = LONGEST_TEXTS[key]
        need(is_text(text) and len(text) <= longest, f"its {key} is not a text of at most {longest} characters")
    return told


class Map(NamedTuple):
    """One tensor of a recording; `what` is a key of AXES, `layer` is None for the rollout."""

    name: str
    tensor: Tensor
    sample: int
    kind: str
    layer: int | None
    what: str


def maps(header: Header) -> Iterator[Map]:
    """Yield all tensors with a known name; other tensors may come from a later version."""
    for name, tensor in header.tensors.items():
        match = NAME.fullmatch(name)
        if match and match[3]:
            yield Map(name, tensor, int(match[1]), match[2], int(match[3]), match[4] or "weights")
        elif match:
            yield Map(name, tensor, int(match[1]), match[2], None, "rollout")


def _parsed(header: Header, name: str, absent: object) -> Any:
    return parse_json(header.metadata[name], f"its '{name}'") if name in header.metadata else absent


def _matrices(matrices: Any, kinds: Kinds, is_right: Callable[[object], bool], where: str) -> Matrices:
    need(isinstance(matrices, dict), f"{where}: must be a JSON object by kind")
    for kind, matrix in matrices.items():
        need(kind in kinds, f"{where}: there are no {kind} maps")
        layers, heads = kinds[kind]["layers"], kinds[kind]["heads"]
        shaped = isinstance(matrix, list) and len(matrix) == layers
        shaped = shaped and all(isinstance(row, list) and len(row) == heads for row in matrix)
        need(shaped, f"{where}: {kind} must have {layers} layers with {heads} heads")
        need(all(is_right(value) for row in matrix for value in row), f"{where}: {kind} has an invalid value")
    return matrices


def _score(score: Any, kinds: Kinds, where: str) -> dict[str, Any]:
    need(isinstance(score, dict), f"{where} is not a JSON object")
    kind, layer, head, value = (score.get(key) for key in ("kind", "layer", "head", "value"))
    need(is_text(score.get("measure")) and is_text(score.get("name")), f"{where} needs a measure and a name")
    need("value" in score and is_number_or_none(value), f"{where} has no value")
    need(kind is None or (is_text(kind) and kind in kinds), f"{where} refers to a kind that is not recorded")
    extent = {"layers": 0, "heads": 0} if kind is None else kinds[kind]
    need(layer is None or is_whole(layer, 0, extent["layers"] - 1), f"{where} refers to a layer that is not recorded")
    need(head is None or is_whole(head, 0, extent["heads"] - 1), f"{where} refers to a head that is not recorded")
    need(score.get("rows") in (None, "reads", "predicts"), f"{where} refers to rows other than reads and predicts")
    need(score.get("count") is None or is_size(score["count"]), f"{where} has an invalid count of examples")
    return {key: score.get(key) for key in ("measure", "name", "value", "kind", "layer", "head", "rows", "count")}
