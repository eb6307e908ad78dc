"""Messages about invalid recordings: one case for every check."""

import json
import os
import random
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from attention_maps.files import store
from attention_maps.files.errors import Damaged
from attention_maps.files.header import FORMAT, VERSION, opened, read_header, read_tensor
from attention_maps.record.recording import Recording
from tests.attention_maps.tensorboard.conftest import Tab
from tests.robustness.fuzz.damage import cut

Change = Callable[[dict[str, Any], dict[str, Any]], None]
"""Changes the header, and what its metadata say."""


def sample(name: str, value: Any) -> Change:
    """Return a change of one field of the sample; dots separate nested keys."""

    def change(header: dict[str, Any], metadata: dict[str, Any]) -> None:
        entry = metadata["samples"][0]
        *path, last = name.split(".")
        for part in path:
            entry = entry[part]
        entry[last] = value

    return change


def told(name: str, value: Any) -> Change:
    """Return a change of one metadata value."""
    return lambda header, metadata: metadata.update({name: value})


def tensor(name: str, **description: Any) -> Change:
    """Return a change of the description of a tensor."""
    return lambda header, metadata: header[name].update(description)


def renamed(before: str, after: str) -> Change:
    """Return a change of the name of a tensor."""
    return lambda header, metadata: header.update({after: header.pop(before)})


def score(**entries: Any) -> Change:
    """Return a change of the only score."""
    whole = {"measure": "alignment_error", "name": "best", "value": 1.0, "kind": "cross", "layer": 0, "head": 0}
    return told("scores", [{key: value for key, value in (whole | entries).items() if value != "absent"}])


def without_gold(other: Change) -> Change:
    """Return a change of a sample without links and antecedents."""

    def change(header: dict[str, Any], metadata: dict[str, Any]) -> None:
        metadata["samples"][0] |= {"links": None, "antecedents": None}
        other(header, metadata)

    return change


def second_sample(header: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Add a sample without maps."""
    metadata["samples"] *= 2


def without_layer(header: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Number the layers 0 and 2."""
    for name in [name for name in header if name.startswith("0/cross/1")]:
        header[name.replace("cross/1", "cross/2")] = header.pop(name)


def fewer_heads(header: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Give one layer a single head."""
    base = header["0/cross/1"]["data_offsets"][0]
    header["rest"] = {"dtype": "F16", "shape": [1, 4, 3], "data_offsets": [base + 24, base + 48]}
    header["0/cross/1"] |= {"shape": [1, 4, 3], "data_offsets": [base, base + 24]}
    for name in ("norms", "values"):
        header[f"later/{name}"] = header.pop(f"0/cross/1/{name}")


def without_maps(header: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Rename all tensors."""
    for name in [name for name in header if name != "__metadata__"]:
        header[f"later/{name}"] = header.pop(name)


WRONG: list[tuple[Change, str]] = [
    (without_layer, "layers are missing among the cross maps of sample 0"),
    (fewer_heads, "the cross maps of sample 0 have different numbers of heads"),
    (without_maps, "it contains no maps"),
    (told("format", "pt"), "a safetensors file, but not an attention recording"),
    (told("version", "2"), "recording format 2; this program reads 1"),
    (told("step", "soon"), "its step is not an integer"),
    (told("samples", None), "it contains no samples"),
    (told("samples", []), "0/cross/0 belongs to no sample"),
    (told("samples", [1]), "sample 0 is not a JSON object"),
    (second_sample, "it contains samples without maps"),
    (sample("reads", None), "sample 0, reads: there are no tokens"),
    (sample("reads.ids", [2, 5, 6, 7.5]), "sample 0, reads: ids must be integers"),
    (sample("reads.ids", [2, 5, 6, True]), "sample 0, reads: ids must be integers"),
    (sample("reads.ids", [2, 5, 6, 2**60]), "sample 0, reads: ids must be integers"),
    (sample("source.pieces", ["a", "b", None]), "sample 0, source: pieces must be strings"),
    (sample("predicts.special", [0, 0, 0, 2]), "sample 0, predicts: special marks must be 0 or 1"),
    (sample("predicts.special", [0, 0, 0]), "sample 0, predicts: each token needs an id, a piece and a special mark"),
    (sample("reads", {"ids": [], "pieces": [], "special": []}), "sample 0 reads no tokens"),
    (sample("predicts", {"ids": [1], "pieces": ["a"], "special": [0]}), "sample 0 reads 4 tokens and predicts 1"),
    (sample("source", None), "sample 0: links must be pairs of positions"),
    (without_gold(sample("source", None)), "0/cross/0 has the shape [2, 4, 3], its tokens require [2, 4, 0]"),
    (without_gold(sample("source", {"ids": [1], "pieces": ["a"], "special": [0]})), "its tokens require [2, 4, 1]"),
    (sample("losses", [0.5] * 3), "sample 0 needs one loss per prediction"),
    (sample("losses", [0.5, 0.5, 0.5, "0.5"]), "sample 0 needs one loss per prediction"),
    (sample("predictions", [[]]), "sample 0 needs predictions for each row"),
    (sample("predictions", []), "0/attribution has the shape [3, 3, 4] instead of [1, 3, 0]"),
    (sample("predictions", [[[5, "I"]]] * 4), "sample 0 needs predictions for each row"),
    (sample("predictions", [[["5", "I", 0.5]]] * 4), "sample 0 needs predictions for each row"),
    (sample("predictions", [[[5, 5, 0.5]]] * 4), "sample 0 needs predictions for each row"),
    (sample("predictions", [[[5, "I", "0.5"]]] * 4), "sample 0 needs predictions for each row"),
    (sample("name", None), "sample 0 has no name"),
    (sample("length", -1), "sample 0 has invalid lengths"),
    (sample("source_length", "3"), "sample 0 has invalid lengths"),
    (sample("truncated", 0), "sample 0 has no boolean 'truncated'"),
    (sample("links", {}), "sample 0: links must be pairs of positions in source and predicts"),
    (sample("links", [[0]]), "sample 0: links must be pairs of positions"),
    (sample("links", [[3, 0]]), "sample 0: links must be pairs of positions"),
    (sample("links", [[0, 4]]), "sample 0: links must be pairs of positions"),
    (sample("links", [[-1, 0]]), "sample 0: links must be pairs of positions"),
    (sample("antecedents", []), "sample 0: antecedents need a side"),
    (
        sample("antecedents", {"side": "reads", "pairs": [], "mentions": [[2, 1, 0, 0]]}),
        "sample 0: mentions must be spans of its tokens",
    ),
    (sample("antecedents.side", "predicts"), "sample 0: antecedents need a side"),
    (sample("antecedents.pairs", [[0, 1, 2]]), "sample 0: antecedents must be pairs of spans of its tokens"),
    (sample("antecedents.pairs", [[0, 1, 4, 5]]), "sample 0: antecedents must be pairs of spans"),
    (sample("antecedents.pairs", [[1, 1, 2, 3]]), "sample 0: antecedents must be pairs of spans"),
    (sample("antecedents.pairs", [[0, 1, 3, 2]]), "sample 0: antecedents must be pairs of spans"),
    (tensor("0/cross/0", shape=[2, 3, 4]), "0/cross/0 has the shape [2, 3, 4], its tokens require [2, 4, 3]"),
    (tensor("0/cross/0", shape=[24]), "0/cross/0 is F16 [24] instead of F16 [H,Q,K]"),
    (tensor("0/cross/0", dtype="I16"), "0/cross/0 is I16 [2, 4, 3] instead of F16 [H,Q,K]"),
    (tensor("0/cross/0", shape=[4, 2, 3]), "0/cross/0/norms does not match its weights"),
    (tensor("0/decoder/0/norms", shape=[4, 2]), "0/decoder/0/norms does not match its weights"),
    (tensor("0/decoder/rollout", shape=[2, 8]), "0/decoder/rollout has the shape [2, 8], its tokens require [4, 4]"),
    (renamed("0/cross/1", "0/cross/2"), "does not match its weights"),
    (renamed("0/encoder/1", "1/encoder/1"), "does not match its weights"),
    (tensor("0/cross/1", dtype=None), "tensor 0/cross/1 has no dtype"),
    (tensor("0/cross/1", shape=24), "tensor 0/cross/1 has an invalid shape"),
    (tensor("0/cross/1", shape=[1] * 9), "tensor 0/cross/1 has an invalid shape"),
    (tensor("0/cross/1", shape=[-2, -4, 3]), "tensor 0/cross/1 has an invalid shape"),
    (tensor("0/cross/1", shape=[2, 4, 2]), "bytes, its shape [2, 4, 2] needs 32"),
    (tensor("0/cross/1", data_offsets=[0]), "tensor 0/cross/1 has invalid offsets"),
    (tensor("0/cross/1", data_offsets=[-48, 0]), "tensor 0/cross/1 has invalid offsets"),
    (tensor("0/cross/1", data_offsets=[48, 0]), "tensor 0/cross/1 ends before it begins"),
    (tensor("0/cross/1", data_offsets=[10, 58]), "begins at byte"),
    (tensor("0/cross/1", data_offsets=[2**40, 2**40 + 48]), "begins at byte"),
    (lambda header, metadata: header.update({"0/cross/1": []}), "tensor 0/cross/1 has no description"),
    (told("measures", []), "its measures are not a JSON object"),
    (told("measures", {"entropy": []}), "measure entropy: must be a JSON object by kind"),
    (told("measures", {"entropy": {"self": []}}), "measure entropy: there are no self maps"),
    (told("measures", {"entropy": {"cross": [[1, 2]]}}), "measure entropy: cross must have 2 layers with 2 heads"),
    (told("measures", {"entropy": {"cross": [[1, 2], [3]]}}), "measure entropy: cross must have 2 layers with 2 heads"),
    (told("measures", {"entropy": {"cross": [[1, 2], [3, "4"]]}}), "measure entropy: cross has an invalid value"),
    (told("measures", {str(number): {} for number in range(65)}), "it has 65 measures, more than the limit of 64"),
    (told("measures", {"x" * 65: {}}), "a measure's name has over 64 characters"),
    (told("labels", {"cross": [["", ""], ["", None]]}), "labels: cross has an invalid value"),
    (told("scores", {}), "its scores are not a list"),
    (told("scores", [[]]), "score 0 is not a JSON object"),
    (score(measure=1), "score 0 needs a measure and a name"),
    (score(name="absent"), "score 0 needs a measure and a name"),
    (score(value="absent"), "score 0 has no value"),
    (score(value="1"), "score 0 has no value"),
    (score(count=-1), "score 0 has an invalid count of examples"),
    (score(count=2.5), "score 0 has an invalid count of examples"),
    (score(kind="self"), "score 0 refers to a kind that is not recorded"),
    (score(layer=2), "score 0 refers to a layer that is not recorded"),
    (score(head=-1), "score 0 refers to a head that is not recorded"),
    (score(kind=None), "score 0 refers to a layer that is not recorded"),
    (sample("lens", {}), "sample 0 has an invalid lens"),
    (sample("lens", [[[[5, "I", 0.5]]] * 3]), "sample 0 has an invalid lens"),
    (sample("lens", [[[[5, None, 0.5]]] * 4]), "sample 0 has an invalid lens"),
    (told("parts", {}), "its parts are invalid"),
    (told("parts", [["embedding", 0]]), "its parts are invalid"),
    (told("parts", [["head", 0, 0]]), "its parts are invalid"),
    (told("deviation", '"x"'), "its deviation is not a number"),
    (told("deviation", "$.0"), "deviation"),
    (told("parts", [[["mlp"], 0, 0]]), "its parts are invalid"),
    (told("parts", [["mlp", 0, "0"]]), "its parts are invalid"),
    (told("parts", [["mlp", 0, 0]]), "0/attribution has the shape"),
    (told("about", []), "what it says of its model is not a JSON object"),
    (told("about", {"title": 5}), "its title is not a text of at most 100 characters"),
    (told("about", {"title": None}), "its title is not a text of at most 100 characters"),
    (told("about", {"licence": "x" * 101}), "its licence is not a text of at most 100 characters"),
    (tensor("0/logits", dtype="I16"), "0/logits is I16"),
    (tensor("0/attribution", dtype="I16"), "0/attribution is I16"),
]


def test_each_defect_of_a_recording_is_reported(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards the page and scripts against recordings with which they would draw nonsense or fail, and against two
    readers that disagree."""
    path, server = store.save(complete, tmp_path), tab(tmp_path)
    whole = path.read_bytes()
    for number, (change, reason) in enumerate(WRONG):
        path.write_bytes(whole)
        write(path, change)
        reason_given = server.refused(422, "meta", run=".", recording="step_00001000")
        assert reason_given.startswith("step_00001000.safetensors: "), number
        assert reason in reason_given, number
        with pytest.raises(store.RecordingError, match=re.escape(reason)):
            store.load(path)


def test_readers_agree_about_damaged_files(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against crashes of TensorBoard, tracebacks of scripts, and a file that only one of two readers refuses."""
    path, server, chance = store.save(complete, tmp_path), tab(tmp_path), random.Random(0)
    whole = path.read_bytes()
    codes = Counter[int]()
    for what in ("truncate", "flip", "overwrite", "insert", "delete", "append", "swap") * 15:
        path.write_bytes(cut(whole, (what, chance.choice([0.02, 0.5, 1]) * chance.random(), chance.randbytes(8))))
        answer = server.get("meta", run=".", recording="step_00001000")
        codes[answer.status_code] += 1
        try:
            store.load(path)
            reason = ""
        except store.RecordingError as error:
            reason = str(error)
        assert (answer.status_code, bool(reason)) in ((200, False), (422, True)), path.read_bytes()[:3000]
    assert codes[422] > 75


def test_samples_with_different_maps_are_refused(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against samples with different layers or heads, for which the page has a single menu."""
    path = store.save(replace(complete, samples=complete.samples * 2), tmp_path)
    assert tab(tmp_path).json("meta", run=".", recording="step_00001000")["kinds"]["cross"] == {"layers": 2, "heads": 2}

    def without_a_layer(header: dict[str, Any], metadata: dict[str, Any]) -> None:
        for name in [name for name in header if name.startswith("1/cross/1")]:
            header[f"later/{name}"] = header.pop(name)

    write(path, without_a_layer)
    assert "do not have the same maps" in tab(tmp_path).refused(422, "meta", run=".", recording="step_00001000")


def test_recording_without_samples_has_measures_and_scores(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards the curves of runs with attention.examples=0, which record measures and scores but no maps."""
    path = store.save(replace(complete, samples=()), tmp_path)
    server, where = tab(tmp_path), {"run": ".", "recording": "step_00001000"}
    meta = server.json("meta", **where)
    assert meta["samples"] == []
    assert meta["kinds"] == {kind: {"layers": 2, "heads": 2} for kind in ("encoder", "decoder", "cross")}
    assert meta["measures"]["alignment_error"]["cross"] == [[20.5, 80.0], [50.0, 50.0]]
    assert len(meta["scores"]) == 2
    assert server.json("curves", run=".")["steps"] == [1000]
    assert "no tensor 0/cross/0" in server.refused(404, "tensor", **where, sample=0, kind="cross", layer=0)
    for measures, reason in (
        ({}, "it contains neither maps nor measures"),
        ({"entropy": {"cross": [[]]}}, "it contains neither maps nor measures"),
        ({"entropy": {"cross": [[1.0, 2.0], [3.0]]}}, "entropy: cross must have 2 layers with 2 heads"),
        (
            {"entropy": {"cross": [[1.0]]}, "first": {"cross": [[1.0, 2.0]]}},
            "first: cross must have 1 layers with 1 heads",
        ),
    ):
        store.save(replace(complete, samples=(), measures=measures, labels={}, scores=()), tmp_path)
        assert reason in server.refused(422, "meta", **where)
        with pytest.raises(store.RecordingError, match=reason):
            store.load(path)


def test_unknown_keys_are_ignored(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against rejecting additional keys, and passing unchecked keys to the page."""
    path = store.save(complete, tmp_path)
    before = tab(tmp_path).json("meta", run=".", recording="step_00001000")

    def more(header: dict[str, Any], metadata: dict[str, Any]) -> None:
        end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        header["0/cross/0/gradients"] = {"dtype": "F8_E4M3", "shape": [2, 3], "data_offsets": [end, end]}
        metadata["samples"][0]["language"] = {"deep": [[["er"]]]}
        metadata["about"]["author"] = ["Emi"]
        metadata["more"] = "not even JSON"

    write(path, more)
    assert before["about"] == complete.about
    assert tab(tmp_path).json("meta", run=".", recording="step_00001000") == before


def test_truncated_file_is_reported(tab: type[Tab], complete: Recording, tmp_path: Path) -> None:
    """Guards against tracebacks or zeros for files truncated by a full disk or an incomplete copy."""
    path, server = store.save(complete, tmp_path), tab(tmp_path)
    whole = path.read_bytes()
    asked = {"run": ".", "recording": "step_00001000", "sample": 0, "kind": "cross", "layer": 0}
    for length in (0, 1, 7, 8, 9, 100, 2000, -1):
        path.write_bytes(whole[:length])
        for route in ("meta", "tensor"):
            assert "truncated" in server.refused(422, route, **asked)
        with pytest.raises(store.RecordingError, match=r"step_00001000.safetensors: .*truncated"):
            store.load(path)


def test_too_large_headers_and_tensors_are_refused(
    tab: type[Tab], complete: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against exhausting TensorBoard's memory by a sparse file that claims a large size."""
    path = store.save(complete, tmp_path)
    asked = {"run": ".", "recording": "step_00001000", "sample": 0, "kind": "cross", "layer": 0}
    monkeypatch.setattr("attention_maps.files.header.LARGEST_TENSOR", 40)
    assert "a tensor has 48 bytes, more than the limit of 40" in tab(tmp_path).refused(422, "tensor", **asked)
    with path.open("r+b") as file:
        file.write(struct.pack("<Q", 2**40))
        file.truncate(2**41)
    assert "more than the limit of 33554432" in tab(tmp_path).refused(422, "meta", **asked)


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """Guards against a truncated tensor with a complete shape."""
    path = tmp_path / "large.safetensors"
    save_file({"0/cross/0": np.zeros((8, 100, 100), np.float16)}, path, {"format": FORMAT, "version": VERSION})
    with opened(str(path)) as file:
        header = read_header(file)
        os.truncate(path, 100_000)
        with pytest.raises(Damaged, match="truncated while it was being read"):
            read_tensor(file, header.tensors["0/cross/0"])


def write(path: Path, change: Change) -> None:
    """Change the header of a recording without changing the data."""
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    parts = ("samples", "measures", "labels", "scores", "parts", "about")
    metadata = header["__metadata__"]
    metadata = metadata | {name: json.loads(metadata[name]) for name in parts}
    change(header, metadata)
    header["__metadata__"] = {key: json.dumps(value) if key in parts else value for key, value in metadata.items()}
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + whole[8 + length :])
