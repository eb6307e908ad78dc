"""Run folders made to harm whoever uses them: refused with the reason; nothing is executed."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sentencepiece import sentencepiece_model_pb2

from tests.robustness.security.conftest import Refuses

pytestmark = pytest.mark.slow


class Evil:
    """Creates a file named `evil` when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch evil",)


def forget_checksums(checkpoint: Path) -> None:
    """Remove the checksums: whoever changes a file on purpose also changes its checksum."""
    content = json.loads((checkpoint / "state.json").read_text("utf-8"))
    for key in ("files", "crc32"):
        content.pop(key, None)
    (checkpoint / "state.json").write_text(json.dumps(content), "utf-8")


@pytest.fixture
def checkpoint(runs: Path) -> Path:
    """Return the only checkpoint of the GPT, without checksums."""
    folder = (runs / "runs" / "gpt" / "checkpoints" / "last").resolve()
    forget_checksums(folder)
    return folder


def saved(value: object) -> bytes:
    """Return the file that torch.save writes."""
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def nested(value: object) -> bytes:
    """Return a state of which one entry is the value."""
    return saved({"weights": {"starts": value}, "optimizer": [], "save": "x"})


@pytest.mark.parametrize(
    "content",
    [
        saved(Evil()),
        nested(Evil()),
        pickle.dumps(Evil()),
        pickle.dumps({"weights": Evil()}, protocol=0),
        saved([Evil()] * 3),
    ],
    ids=["state", "nested", "pickle", "protocol 0", "list"],
)
@pytest.mark.parametrize("file", ["state.pt", "weights.safetensors"])
def test_a_pickle_is_never_unpickled(refuses: Refuses, runs: Path, checkpoint: Path, file: str, content: bytes) -> None:
    """Guards against executed code in the training state, or in weights that are a pickle under another name."""
    assert pickle.loads(pickle.dumps(1)) == 1
    (checkpoint / file).write_bytes(content)
    assert "every checkpoint is damaged" in refuses("train.py", "resume=runs/gpt", "trainer.steps=9")
    if file == "weights.safetensors":
        assert "every checkpoint is damaged" in refuses("generate.py", "run=runs/gpt", "prompt=The")


def test_the_pickles_of_these_tests_are_dangerous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above: unpickled, the same bytes create the file that it looks for."""
    monkeypatch.chdir(tmp_path)
    torch.load(io.BytesIO(nested(Evil())), weights_only=False)
    assert (tmp_path / "evil").exists()


def lying(header: dict, length: int | None = None, data: bytes = b"") -> bytes:
    """Return a safetensors file with any header and any declared length."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize(
    "content",
    [
        lying({}, 2**63),
        lying({}, 2**40),
        lying({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
        lying({"a": {"dtype": "F32", "shape": [2**32, 2**32, 2**32], "data_offsets": [0, 8]}}, data=b"x" * 8),
        lying({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}, data=b"x" * 8),
        lying({"a": {"dtype": "F32", "shape": [2], "data_offsets": [2**63, 8]}}, data=b"x" * 8),
        lying({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}}, data=b"x" * 8),
        b'\xff\xff\xff\xff\0\0\0\0{"a":' + b"[" * 100_000,
    ],
    ids=range(8),
)
def test_a_safetensors_header_that_lies_is_refused(refuses: Refuses, checkpoint: Path, content: bytes) -> None:
    """Guards against reading beyond the file, or allocating what a header of a hundred bytes declares."""
    (checkpoint / "weights.safetensors").write_bytes(content)
    assert "every checkpoint is damaged" in refuses("generate.py", "run=runs/gpt", "prompt=The")


def test_a_state_that_is_an_archive_bomb_is_refused(refuses: Refuses, checkpoint: Path) -> None:
    """Guards against a state.pt, which is a zip archive, whose compressed entries fill the memory: torch reads stored
    entries only."""
    with zipfile.ZipFile(checkpoint / "state.pt") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(checkpoint / "state.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, b"\0" * 500_000_000 if name.endswith("data/0") else content)
    assert (checkpoint / "state.pt").stat().st_size < 2_000_000
    assert "every checkpoint is damaged" in refuses("train.py", "resume=runs/gpt", "trainer.steps=9")


def test_an_archive_member_that_leads_outside_writes_nothing(refuses: Refuses, checkpoint: Path, runs: Path) -> None:
    """Guards against a path in the archive of state.pt, such as ../../evil."""
    with zipfile.ZipFile(checkpoint / "state.pt", "a") as archive:
        archive.writestr("../../../evil", b"x")
    (checkpoint / "weights.safetensors").write_bytes(b"")
    refuses("train.py", "resume=runs/gpt", "trainer.steps=9")
    assert not list(runs.rglob("evil"))


def test_a_tokenizer_with_a_huge_vocabulary_is_refused(refuses: Refuses, runs: Path) -> None:
    """Guards against a model that is as large as a tokenizer's vocabulary of a million pieces, and against numbers that
    are trusted."""
    path = runs / "runs" / "gpt" / "tokenizer.model"
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    model.trainer_spec.vocab_size = 2**31 - 1  # not used: the pieces are counted
    for number in range(1_000_000):
        model.pieces.add(piece=f"\ufdd7{number}", score=-1.0)
    path.write_bytes(model.SerializeToString())
    assert "contains a different model" in refuses("generate.py", "run=runs/gpt", "prompt=The")


def test_a_number_of_layers_beyond_the_weights_is_refused(refuses: Refuses, runs: Path) -> None:
    """Guards against a config.yaml that makes the program build a huge model before it reads the small weights."""
    path = runs / "runs" / "gpt" / "config.yaml"
    path.write_text(path.read_text("utf-8").replace("  layers: 1\n", "  layers: 999999999\n"), "utf-8")
    assert "model.layers=999999999: must be at most 1000" in refuses("generate.py", "run=runs/gpt", "prompt=The")


@pytest.mark.parametrize("name", ["log.txt", "metrics.jsonl", "config.yaml"])
def test_a_run_does_not_write_through_a_link(refuses: Refuses, runs: Path, name: str) -> None:
    """Guards against a run folder whose log is a link to another file of the user, to which a resumed run appends."""
    precious = runs / "precious.txt"
    path = runs / "runs" / "gpt" / name
    precious.write_bytes(path.read_bytes())
    before = precious.read_bytes()
    path.unlink()
    path.symlink_to(precious)
    assert "leads out of the run folder" in refuses("train.py", "resume=runs/gpt", "trainer.steps=9")
    assert precious.read_bytes() == before


def test_maps_are_not_written_through_a_link(refuses: Refuses, runs: Path) -> None:
    """Guards against files in a foreign folder: the maps of a generated text are part of the run."""
    outside = runs / "outside"
    (runs / "runs" / "gpt" / "attention").rename(outside)
    (runs / "runs" / "gpt" / "attention").symlink_to(outside, target_is_directory=True)
    before = sorted(outside.iterdir())
    settings = ("run=runs/gpt", "prompt=The", "max_tokens=2", "attention=true")
    assert "leads out of the run folder" in refuses("generate.py", *settings)
    assert sorted(outside.iterdir()) == before


def test_the_weights_of_the_runs_are_intact(runs: Path) -> None:
    """Guards the tests above: the undamaged run loads."""
    assert load_file(runs / "runs" / "gpt" / "checkpoints" / "last" / "weights.safetensors")
