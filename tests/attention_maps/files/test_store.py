"""Recordings on disk."""

import errno
import json
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from attention_maps.base.errors import UserError
from attention_maps.files import store
from attention_maps.record.recording import Antecedents, Recording, Score
from tests.conftest import ROOT, environment


def test_a_recording_comes_back_as_it_was(lesson: Recording, tmp_path: Path) -> None:
    """Guards against lost or reordered fields, including Japanese pieces."""
    path = store.save(lesson, tmp_path)
    assert path == tmp_path / "attention" / "step_00001000.safetensors"
    loaded = store.load(path)
    assert loaded.step == 1000
    before, after = lesson.samples[0], loaded.samples[0]
    for name in ("reads", "predicts", "source", "losses", "predictions", "name", "length", "source_length"):
        assert getattr(after, name) == getattr(before, name), name
    for arrays_before, arrays_after in ((before.weights, after.weights), (before.norms, after.norms)):
        assert arrays_after.keys() == arrays_before.keys()
        for key, array in arrays_before.items():
            assert arrays_after[key].dtype == np.float16
            np.testing.assert_array_equal(arrays_after[key], array)


def test_the_layout_is_the_one_the_tab_reads(lesson: Recording, tmp_path: Path) -> None:
    """Guards against changes of the file format, which the tab parses without this code."""
    path = store.save(lesson, tmp_path)
    with safe_open(path, framework="numpy") as opened:
        assert opened.get_tensor("0/cross/1").shape == (2, 4, 3)
        assert opened.get_tensor("0/cross/1/norms").shape == (2, 4)
        metadata = opened.metadata()
    assert (metadata["format"], metadata["version"], metadata["step"]) == ("chumoku-attention", "1", "1000")
    (sample,) = json.loads(metadata["samples"])
    assert sample["source"]["pieces"] == ["いいえ", "勝つ", "さ"]
    assert sample["reads"]["special"] == [1, 0, 0, 0]
    assert sample["truncated"] is False
    assert sample["predictions"][0] == [[5, "I", 0.5], [6, "d", 0.25]]


def test_more_than_ten_layers_keep_their_order(lesson: Recording, tmp_path: Path) -> None:
    """Guards against lexicographic order, in which layer 10 precedes layer 2."""
    sample = lesson.samples[0]
    for layer in range(2, 12):
        sample.weights["cross", layer] = np.full((2, 4, 3), layer / 16, np.float16)
        sample.norms["cross", layer] = np.zeros((2, 4), np.float16)
    loaded = store.load(store.save(lesson, tmp_path))
    for layer in range(2, 12):
        assert loaded.maps(0, "cross", layer)[0, 0, 0] == layer / 16


def test_file_names_have_no_signs_that_tools_split_at(tmp_path: Path) -> None:
    """Guards against `=` and `,` in names, at which Hydra and --logdir_spec split; names also sort by step."""
    names = [store.path(tmp_path, step).name for step in (0, 999, 12_345_678, 123_456_789)]
    assert names == sorted(names[:3]) + names[3:]
    assert not set("=, ") & set("".join(names))


@pytest.mark.parametrize("step", [-1, 1.5])
def test_a_step_that_no_reader_would_find_is_refused(lesson: Recording, tmp_path: Path, step: Any) -> None:
    """Guards against a file that is written and never shown."""
    with pytest.raises(UserError, match=f"step={step}: must be a whole number, at least 0"):
        store.save(replace(lesson, step=step), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_steps_are_listed_in_order_and_other_files_are_not(lesson: Recording, tmp_path: Path) -> None:
    """Guards against stray and partial files listed as steps."""
    assert store.steps(tmp_path) == {}
    for step in (2000, 0, 100_000_000, 500):
        store.save(Recording(step, lesson.samples), tmp_path)
    folder = tmp_path / "attention"
    for stray in ("step_1.safetensors", ".step_00000009.safetensors.17", "step_00000009.safetensors.bak", "notes.txt"):
        (folder / stray).write_bytes(b"")
    assert list(store.steps(tmp_path)) == [0, 500, 2000, 100_000_000]
    assert store.steps(tmp_path)[500] == folder / "step_00000500.safetensors"


def test_resuming_removes_the_later_history_only(lesson: Recording, tmp_path: Path) -> None:
    """Guards against a mixture of two histories after a resume."""
    for step in (500, 1000, 1500, 2000):
        store.save(Recording(step, lesson.samples), tmp_path)
    removed = store.remove_after(tmp_path, 1000)
    assert [path.name for path in removed] == ["step_00001500.safetensors", "step_00002000.safetensors"]
    assert list(store.steps(tmp_path)) == [500, 1000]


def test_a_failed_write_leaves_what_was_there_and_nothing_else(lesson: Recording, tmp_path: Path) -> None:
    """Guards against partial or leftover files if writing or renaming fails."""
    path = store.save(lesson, tmp_path)
    whole = path.read_bytes()
    occupied = store.path(tmp_path, 2000)
    occupied.mkdir()
    with pytest.raises(OSError, match="step_00002000"):
        store.save(Recording(2000, lesson.samples), tmp_path)
    lesson.samples[0].weights["cross", 0] = np.array([["no", "number"]], dtype=object)
    with pytest.raises(Exception, match="object"):
        store.save(lesson, tmp_path)
    assert path.read_bytes() == whole
    assert sorted(path.parent.iterdir()) == [path, occupied]


def test_a_deleted_run_stays_deleted(lesson: Recording, tmp_path: Path) -> None:
    """Guards against a run that comes back as a folder with maps alone, if it is deleted just before they are saved."""
    with pytest.raises(FileNotFoundError):
        store.save(lesson, tmp_path / "runs" / "a", parents=False)
    assert not list(tmp_path.iterdir())


def test_foreign_and_newer_files_are_told_apart(tmp_path: Path) -> None:
    """Guards against reading model weights, or a later format, as maps."""
    path = tmp_path / "weights.safetensors"
    save_file({"0/cross/0": np.zeros((1, 1, 1), np.float16)}, path)
    with pytest.raises(store.RecordingError, match="not an attention recording"):
        store.load(path)
    save_file({}, path, metadata={"format": "chumoku-attention", "version": "2", "step": "1", "samples": "[]"})
    with pytest.raises(store.RecordingError, match="recording format 2; this program reads 1"):
        store.load(path)
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(store.RecordingError, match="truncated or not safetensors"):
        store.load(path)
    with pytest.raises(FileNotFoundError, match="no such recording"):
        store.load(tmp_path / "absent.safetensors")


def _rewrite(path: Path, tensors: dict[str, np.ndarray | None], metadata: dict[str, str]) -> None:
    with safe_open(path, framework="numpy") as opened:
        kept = opened.metadata() | metadata
    changed = load_file(path) | tensors
    save_file({name: tensor for name, tensor in changed.items() if tensor is not None}, path, metadata=kept)


def test_a_deviation_and_a_loss_are_numbers(lesson: Recording, tmp_path: Path) -> None:
    """Guards what only this reader reads; what both read is in tensorboard/test_recording_reader.py."""
    path = store.save(lesson, tmp_path)
    for wrong in ({"deviation": "[]"}, {"loss": '"low"'}, {"step": "9" * 5000}, {"samples": "[" * 100_000}):
        store.save(lesson, tmp_path)
        _rewrite(path, {}, wrong)
        with pytest.raises(store.RecordingError, match=r"not a number|not an integer|nested too deeply"):
            store.load(path)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
def test_numbers_that_numpy_does_not_know_are_refused_where_maps_should_be(
    lesson: Recording, tmp_path: Path, dtype: str
) -> None:
    """Guards against a traceback of the library; other tensors of a later version are allowed."""
    path = store.save(lesson, tmp_path)
    whole, size = path.read_bytes(), {"BF16": 3}.get(dtype, 6)
    before, after = (
        b'"0/cross/0":{"dtype":"F16","shape":[2,4,3]',
        f'"0/cross/0":{{"dtype":"{dtype}","shape":[2,4,{size}]',
    )
    length = struct.unpack("<Q", whole[:8])[0] + len(after) - len(before)
    path.write_bytes(struct.pack("<Q", length) + whole[8:].replace(before, after.encode()))
    with pytest.raises(store.RecordingError, match=rf"0/cross/0 is {dtype} \[2, 4, {size}\] instead of F16"):
        store.load(path)
    later = whole[8:].replace(
        b'"__metadata__"', f'"later":{{"dtype":"{dtype}","shape":[0],"data_offsets":[0,0]}},"__metadata__"'.encode()
    )
    path.write_bytes(struct.pack("<Q", struct.unpack("<Q", whole[:8])[0] + len(later) - len(whole) + 8) + later)
    assert store.load(path).step == 1000


@pytest.mark.parametrize("place", ["reads", "links"])
def test_a_number_beyond_all_numbers_is_refused(lesson: Recording, tmp_path: Path, place: str) -> None:
    """Guards against a traceback for JSON's 1e400, which is parsed as infinity."""
    path = store.save(lesson, tmp_path)
    with safe_open(path, framework="numpy") as opened:
        (sample,) = json.loads(opened.metadata()["samples"])
    sample[place] = sample["reads"] | {"ids": [0, 0, 0, "1e400"]} if place == "reads" else [[0, "1e400"]]
    _rewrite(path, {}, {"samples": json.dumps([sample]).replace('"1e400"', "1e400")})
    with pytest.raises(store.RecordingError, match=r"must be integers|pairs of positions"):
        store.load(path)


def test_an_outline_is_the_recording_without_its_maps(lesson: Recording, tmp_path: Path) -> None:
    """Guards against reading maps to list runs."""
    recording, kinds = store.outline(store.save(lesson, tmp_path))
    assert kinds == {kind: {"layers": 2, "heads": 2} for kind in ("encoder", "decoder", "cross")}
    assert recording.samples[0].reads == lesson.samples[0].reads
    assert recording.samples[0].weights == {}


def test_a_recording_without_samples_keeps_its_measures(tmp_path: Path) -> None:
    """Guards against failing on runs with attention.examples=0, whose heads are measured nevertheless."""
    recording = Recording(1, (), {"entropy": {"cross": [[0.5, 0.25]]}}, scores=(Score("antecedent", "chance", 29.5),))
    loaded = store.load(store.save(recording, tmp_path))
    assert (loaded.samples, loaded.measures, loaded.scores) == ((), recording.measures, recording.scores)


def test_gold_measures_labels_and_scores_come_back(lesson: Recording, tmp_path: Path) -> None:
    """Guards against lost metadata, including a NaN measure."""
    (sample,) = lesson.samples
    sample = replace(
        sample,
        links=((0, 1), (2, 2)),
        antecedents=Antecedents("reads", ((3, 4, 0, 2),), ((0, 2, 0, False), (3, 4, 0, True))),
        values={key: np.ones((2, weights.shape[2]), np.float16) for key, weights in sample.weights.items()},
        rollout={"encoder": np.eye(3, dtype=np.float16), "decoder": np.eye(4, dtype=np.float16)},
    )
    recording = Recording(
        7,
        (sample,),
        measures={"entropy": {"decoder": [[0.5, float("nan")], [1.5, 0.0]]}},
        labels={"decoder": [["broad", ""], ["", "first token"]]},
        scores=(
            Score("alignment_error", "mean of layer 1", 23.5, "cross", 1, rows="reads", count=40),
            Score("antecedent", "chance", 29.5),
        ),
        deviation=1e-6,
        loss=0.25,
    )
    path = store.save(recording, tmp_path)
    loaded = store.load(path)
    assert (loaded.samples[0].links, loaded.samples[0].antecedents) == (sample.links, sample.antecedents)
    for kept in ("labels", "scores", "deviation", "loss"):
        assert getattr(loaded, kept) == getattr(recording, kept)
    assert str(loaded.measures) == str(recording.measures)
    for name in ("values", "rollout"):
        before, after = getattr(sample, name), getattr(loaded.samples[0], name)
        assert before.keys() == after.keys()
        for key in before:
            np.testing.assert_array_equal(before[key], after[key])


def test_generated_texts_are_numbered_beside_the_steps(lesson: Recording, tmp_path: Path) -> None:
    """Guards against maps of generated text that overwrite a training step or each other."""
    store.save(lesson, tmp_path)
    first, second = (store.save_generated(lesson, tmp_path) for _ in range(2))
    assert [first.name, second.name] == ["generated_00001.safetensors", "generated_00002.safetensors"]
    assert list(store.steps(tmp_path)) == [1000]
    assert store.generated(tmp_path) == {1: first, 2: second}
    assert store.load(second).step == 1000


@pytest.mark.parametrize("links", [True, False])
def test_writers_at_the_same_time_never_share_a_number(
    lesson: Recording, tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against overwriting maps of generated text, also on disks without hard links."""
    if not links:
        monkeypatch.setattr(os, "link", _refused)
    with ThreadPoolExecutor(8) as writers:
        paths = list(writers.map(lambda step: store.save_generated(replace(lesson, step=step), tmp_path), range(32)))
    assert sorted(paths) == list(store.generated(tmp_path).values())
    assert list(store.generated(tmp_path)) == list(range(1, 33))
    assert [store.load(path).step for path in paths] == list(range(32))
    assert len(list((tmp_path / "attention").iterdir())) == 32


def _refused(*places: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_full_disk_is_told_with_the_file(lesson: Recording, tmp_path: Path) -> None:
    """Guards against uncaught errors of a library, errors without the file's name, and partial files."""
    run = tmp_path / "run"
    path = store.save(lesson, run)
    code = f"""
import resource, sys
from attention_maps.files import store
from attention_maps.__main__ import guarded
recording = store.load({str(path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (store.save, store.save_generated):
    try:
        write(recording, {str(run)!r})
    except OSError as error:
        print(error.filename, error.strerror)
sys.exit(guarded(["export", {str(run)!r}, "to=" + {str(tmp_path / "map.svg")!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    reason = os.strerror(errno.EFBIG)
    assert done.stdout.splitlines() == [f"{path} {reason}", f"{path.with_name('generated_00001.safetensors')} {reason}"]
    assert (done.returncode, done.stderr) == (2, f"error: {tmp_path / 'map.svg'}: {reason}\n")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert store.load(path).step == 1000


def test_thinning_spreads_what_is_left_over_the_training(lesson: Recording, tmp_path: Path) -> None:
    """Guards against keeping only the end, or only the beginning, of a long run."""
    for step in range(0, 1001, 10):
        store.save(Recording(step, lesson.samples), tmp_path)
        store.thin(tmp_path, keep=11)
    kept = list(store.steps(tmp_path))
    assert (len(kept), kept[0], kept[-1]) == (11, 0, 1000)
    gaps = np.diff(kept)
    assert gaps.max() <= 4 * gaps.min(), kept
    assert store.thin(tmp_path, keep=1)
    assert len(store.steps(tmp_path)) == 2
