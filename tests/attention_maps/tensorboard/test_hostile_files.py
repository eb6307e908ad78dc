"""Thousands of broken, foreign and hostile files: each is shown as it is or rejected with a reason."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from attention_maps.files import store
from attention_maps.record.recording import Recording
from tests.attention_maps.tensorboard.conftest import Tab, refusal
from tests.attention_maps.tensorboard.damage import DAMAGES

WHAT = ("weights", "norms", "values", "rollout")


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "times"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_a_hostile_file_is_refused_or_safe_to_show(
    tab: type[Tab], complete: Recording, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes], times: int
) -> None:
    """Guards against crashes of TensorBoard, and responses with a structure that the page does not expect."""
    chance = random.Random(damage.__name__)
    whole_path = store.save(replace(complete, step=1), tmp_path / "run")
    whole = whole_path.read_bytes()
    path = store.path(tmp_path / "run", 2)
    path.write_bytes(whole)
    shown = tab(tmp_path)
    good = shown.json("meta", run="run", recording="step_00000001")
    shown_count = 0
    for case in range(times):
        path.write_bytes(damage(whole, chance))
        try:
            shown_count += is_shown_well(shown, "step_00000002", chance)
            curves = shown.json("curves", run="run")
            assert 1 in curves["steps"]
            assert len(curves["measures"]["entropy"]["cross"]) == len(curves["steps"])
        except Exception as error:
            raise AssertionError(f"case {case} of {damage.__name__}: {path.read_bytes()[:3000]!r}") from error
    assert shown_count < times / 2, "hardly anything was damaged"
    path.write_bytes(whole)
    assert is_shown_well(shown, "step_00000002", chance)
    assert shown.json("meta", run="run", recording="step_00000001") == good


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "times"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_what_the_tab_refuses_no_script_can_load(
    tab: type[Tab], complete: Recording, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes], times: int
) -> None:
    """Guards against tracebacks of commands and scripts, and two readers that disagree about a file."""
    chance = random.Random(f"load {damage.__name__}")
    path = store.save(replace(complete, step=1), tmp_path / "run")
    whole = path.read_bytes()
    shown = tab(tmp_path)
    for case in range(times // 4):
        path.write_bytes(damage(whole, chance))
        try:
            store.load(path)
            reason = ""
        except store.RecordingError as error:
            reason = str(error)
        except Exception as error:
            raise AssertionError(f"case {case} of {damage.__name__}: {path.read_bytes()[:3000]!r}") from error
        assert not reason or reason.startswith(f"{path}: ")
        loaded = not reason or "deviation" in reason  # of which the tab knows nothing
        assert loaded == (shown.get("meta", run="run", recording="step_00000001").status_code == 200)


def is_shown_well(shown: Tab, recording: str, chance: random.Random) -> bool:
    """Request a recording like the page, assert everything that the page relies on, and return whether it is shown."""
    where = {"run": "run", "recording": recording}
    answer = shown.get("meta", **where)
    if answer.status_code != 200:
        assert refusal(answer, 422).startswith(f"{recording}.safetensors: ")
        any_map = {
            "sample": 0,
            "kind": chance.choice(["encoder", "cross"]),
            "layer": chance.randrange(3),
            "what": chance.choice(WHAT),
        }
        check_tensor(shown.get("tensor", **where, **any_map))
        return False
    meta = strict(answer.data)
    assert meta["kinds"]
    for number, sample in enumerate(meta["samples"]):
        check_sample(sample)
        for kind, extent in meta["kinds"].items():
            for what in WHAT:
                for layer in range(1 if what == "rollout" else extent["layers"]):
                    shape = check_tensor(shown.get("tensor", **where, sample=number, kind=kind, layer=layer, what=what))
                    assert shape == expected_shape(sample, kind, what, extent["heads"]) or (
                        shape is None and what != "weights"
                    )
    for by_kind in [*meta["measures"].values(), meta["labels"]]:
        for kind, matrix in by_kind.items():
            assert len(matrix) == meta["kinds"][kind]["layers"]
            for row in matrix:
                assert len(row) == meta["kinds"][kind]["heads"]
                assert all(isinstance(value, str) if by_kind is meta["labels"] else is_number(value) for value in row)
    for score in meta["scores"]:
        assert score.keys() == {"measure", "name", "value", "kind", "layer", "head", "rows", "count"}
        assert score["rows"] in (None, "reads", "predicts")
        assert is_number(score["value"])
        assert score["kind"] is None or score["kind"] in meta["kinds"]
        for place, count in (("layer", "layers"), ("head", "heads")):
            assert score[place] is None or 0 <= score[place] < meta["kinds"][score["kind"]][count]
    return True


def check_sample(sample: dict[str, Any]) -> None:
    """Assert everything that the page relies on in a sample."""
    for side in ("reads", "predicts", "source"):
        tokens = sample[side]
        if side == "source" and tokens is None:
            continue
        assert len(tokens["ids"]) == len(tokens["pieces"]) == len(tokens["special"])
        assert all(type(token) is int for token in tokens["ids"])
        assert all(isinstance(piece, str) for piece in tokens["pieces"])
        assert set(map(str, tokens["special"])) <= {"0", "1"}
    reads, predicts, source = (len((sample[side] or {"ids": []})["ids"]) for side in ("reads", "predicts", "source"))
    assert predicts in (reads, reads - 1)
    assert len(sample["losses"]) == predicts
    assert all(is_number(loss) for loss in sample["losses"])
    assert len(sample["predictions"]) == reads
    for row in sample["predictions"]:
        for token, piece, probability in row:
            assert type(token) is int
            assert isinstance(piece, str)
            assert is_number(probability)
    assert isinstance(sample["name"], str)
    assert type(sample["length"]) is type(sample["source_length"]) is int
    assert type(sample["truncated"]) is bool
    for position, predicted in sample["links"] or ():
        assert 0 <= position < source
        assert 0 <= predicted < predicts
    if sample["antecedents"]:
        tokens = sample[sample["antecedents"]["side"]]["ids"]
        for start, stop, other_start, other_stop in sample["antecedents"]["pairs"]:
            assert 0 <= start < stop <= len(tokens)
            assert 0 <= other_start < other_stop <= len(tokens)
        for start, stop, referent, pronoun in sample["antecedents"]["mentions"]:
            assert 0 <= start < stop <= len(tokens)
            assert type(referent) is int
            assert pronoun in (0, 1)


def expected_shape(sample: dict[str, Any], kind: str, what: str, heads: int) -> list[int]:
    """Return the shape of a tensor for the tokens of its sample."""
    queries = len(sample["source" if kind == "encoder" else "reads"]["ids"])
    keys = len(sample["reads" if kind == "decoder" else "source"]["ids"])
    return {
        "weights": [heads, queries, keys],
        "norms": [heads, queries],
        "values": [heads, keys],
        "rollout": [queries, keys],
    }[what]


def check_tensor(answer: TestResponse) -> list[int] | None:
    """Return the shape of a tensor, after checking it against the number of bytes; None for an error response."""
    if answer.status_code != 200:
        assert answer.status_code in (404, 422)
        refusal(answer, answer.status_code)
        return None
    shape = [int(size) for size in answer.headers["X-Shape"].split(",")]
    count = 2
    for size in shape:
        count *= size
    assert len(answer.data) == count > 0
    assert answer.headers["X-Dtype"] == "F16"
    return shape


def is_number(value: Any) -> bool:
    """Whether a value is null or a number that a browser can represent."""
    return value is None or (type(value) in (int, float) and abs(value) < 1.8e308)


def strict(text: bytes) -> Any:
    """Parse JSON like a browser."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
