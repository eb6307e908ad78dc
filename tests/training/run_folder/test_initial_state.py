"""The folder of a resumed run when training begins."""

from pathlib import Path

from training.config import TrainConfig
from training.run_folder.initial_state import StartingPoint, opened_folder


def test_partial_files_of_a_killed_process_are_deleted(tmp_path: Path) -> None:
    """Guards against hidden files that pile up with every kill, and against the loss of a file that generate.py is
    writing."""
    step = tmp_path / "checkpoints" / "step-00000002"
    step.mkdir(parents=True)
    (tmp_path / "attention").mkdir()
    partial = [
        tmp_path / ".test.json.0a1b2c3d",
        tmp_path / "attention" / ".step_00000002.safetensors.99999999",
        step / ".state.json.abcdefab",
    ]
    others = [tmp_path / ".lock", tmp_path / "attention" / ".generated_00001.safetensors.99999999", step / "state.json"]
    for path in (*partial, *others):
        path.touch()
    dropped = tmp_path / "checkpoints" / ".tmp-dropped-step-00000001"
    dropped.mkdir()
    with opened_folder(StartingPoint(TrainConfig(), run=tmp_path)):
        assert [path.name for path in partial if path.exists()] == []
        assert not dropped.exists()
        assert all(path.exists() for path in others)
