"""Recordings on disk."""

import errno
import json
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from attention_maps.__main__ import guarded
from attention_maps.base.errors import UserError
from attention_maps.files import store
from attention_maps.record.recording import Antecedents, Recording, Score


def test_file_layout(lesson: Recording, tmp_path: Path) -> None:
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


def test_file_names_contain_no_separators_of_other_tools(tmp_path: Path) -> None:
    """Guards against `=` and `,` in names, at which Hydra and --logdir_spec split; names also sort by step."""
    names = [store.path(tmp_path, step).name for step in (0, 999, 12_345_678, 123_456_789)]
    assert names == sorted(names[:3]) + names[3:]
    assert not set("=, ") & set("".join(names))


@pytest.mark.parametrize("step", [-1, 1.5])
def test_invalid_steps_are_refused(lesson: Recording, tmp_path: Path, step: Any) -> None:
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


def test_remove_after_deletes_later_steps_only(lesson: Recording, tmp_path: Path) -> None:
    """Guards against a mixture of two histories after a resume."""
    for step in (500, 1000, 1500, 2000):
        store.save(Recording(step, lesson.samples), tmp_path)
    removed = store.remove_after(tmp_path, 1000)
    assert [path.name for path in removed] == ["step_00001500.safetensors", "step_00002000.safetensors"]
    assert list(store.steps(tmp_path)) == [500, 1000]


def test_failed_write_keeps_the_previous_file(lesson: Recording, tmp_path: Path) -> None:
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


def test_saving_does_not_recreate_a_deleted_run(lesson: Recording, tmp_path: Path) -> None:
    """Guards against a run that comes back as a folder with maps alone, if it is deleted just before they are saved."""
    with pytest.raises(FileNotFoundError):
        store.save(lesson, tmp_path / "runs" / "a", parents=False)
    assert not list(tmp_path.iterdir())


def _rewrite(path: Path, tensors: dict[str, np.ndarray | None], metadata: dict[str, str]) -> None:
    with safe_open(path, framework="numpy") as opened:
        merged = opened.metadata() | metadata
    changed = load_file(path) | tensors
    save_file({name: tensor for name, tensor in changed.items() if tensor is not None}, path, metadata=merged)


def test_deviation_and_loss_must_be_numbers(lesson: Recording, tmp_path: Path) -> None:
    """Guards what only this reader reads; what both read is in tensorboard/test_recording_reader.py."""
    with pytest.raises(FileNotFoundError, match="no such recording"):
        store.load(tmp_path / "absent.safetensors")
    path = store.save(lesson, tmp_path)
    for wrong in ({"deviation": "[]"}, {"loss": '"low"'}, {"step": "9" * 5000}, {"samples": "[" * 100_000}):
        store.save(lesson, tmp_path)
        _rewrite(path, {}, wrong)
        with pytest.raises(store.RecordingError, match=r"not a number|not an integer|nested too deeply"):
            store.load(path)


def test_an_outline_is_the_recording_without_its_maps(lesson: Recording, tmp_path: Path) -> None:
    """Guards against reading maps to list runs."""
    recording, kinds = store.outline(store.save(lesson, tmp_path))
    assert kinds == {kind: {"layers": 2, "heads": 2} for kind in ("encoder", "decoder", "cross")}
    assert recording.samples[0].reads == lesson.samples[0].reads
    assert recording.samples[0].weights == {}


def test_save_and_load_round_trip(lesson: Recording, tmp_path: Path) -> None:
    """Guards against lost or reordered fields, including Japanese pieces and a NaN measure."""
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
    loaded = store.load(store.save(recording, tmp_path))
    for name in ("step", "labels", "scores", "deviation", "loss"):
        assert getattr(loaded, name) == getattr(recording, name)
    assert str(loaded.measures) == str(recording.measures)
    sides = ("reads", "predicts", "source", "losses", "predictions", "name", "length", "source_length")
    for name in (*sides, "links", "antecedents"):
        assert getattr(loaded.samples[0], name) == getattr(sample, name), name
    for name in ("weights", "norms", "values", "rollout"):
        before, after = getattr(sample, name), getattr(loaded.samples[0], name)
        assert before.keys() == after.keys()
        for key in before:
            assert after[key].dtype == np.float16
            np.testing.assert_array_equal(before[key], after[key])


def test_what_a_recording_says_of_its_model_is_short_text(lesson: Recording, tmp_path: Path) -> None:
    """Guards against recordings that grow with a long list of files, a text that its own reader refuses, and a name of
    a file that is not Unicode, which cannot be written."""
    about: dict[str, Any] = {
        "title": "Stories\n of\tmany \udcff",
        "model": "m" * 300,
        "data": "、" * 1000,
        "command": "",
        "licence": None,
        "unknown": "x",
    }
    loaded = store.load(store.save(replace(lesson, about=about), tmp_path))
    assert loaded.about == {"title": "Stories of many ?", "model": "m" * 300, "data": "、" * 299 + "…"}
    assert store.load(store.save(loaded, tmp_path)).about == loaded.about


def test_recordings_of_older_versions_say_nothing_of_their_model(lesson: Recording, tmp_path: Path) -> None:
    """Guards against refusing recordings that were made before they said what to cite."""
    path = store.save(replace(lesson, about={"title": "Stories"}), tmp_path)
    with safe_open(path, framework="numpy") as opened:
        metadata = opened.metadata()
    assert json.loads(metadata.pop("about")) == {"title": "Stories"}
    save_file(load_file(path), path, metadata=metadata)
    assert store.load(path).about == store.outline(path)[0].about == {}


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


def test_full_disk_error_names_the_file(lesson: Recording, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Guards against uncaught errors of a library, errors without the file's name, and partial files."""
    run = tmp_path / "run"
    path = store.save(lesson, run)
    reason = os.strerror(errno.EFBIG)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    for write, name in ((store.save, path.name), (store.save_generated, "generated_00001.safetensors")):
        with pytest.raises(OSError, match=reason) as failure:
            write(lesson, run)
        assert failure.value.filename == str(path.with_name(name))
    assert guarded(["export", str(run), f"to={tmp_path / 'map.svg'}"]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'map.svg'}: {reason}\n"
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert store.load(path).step == 1000


def test_thinned_steps_are_evenly_spaced(lesson: Recording, tmp_path: Path) -> None:
    """Guards against keeping only the end, or only the beginning, of a long run."""
    for step in range(0, 1001, 10):
        store.save(Recording(step, lesson.samples), tmp_path)
        store.thin(tmp_path, keep=11)
    remaining = list(store.steps(tmp_path))
    assert (len(remaining), remaining[0], remaining[-1]) == (11, 0, 1000)
    gaps = np.diff(remaining)
    assert gaps.max() <= 4 * gaps.min(), remaining
    assert store.thin(tmp_path, keep=1)
    assert len(store.steps(tmp_path)) == 2
