"""Text in the logs of a run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import metadata

from training.config import TrainConfig, TrainerConfig, plain_settings
from training.run_folder.log import RunLog, code_block, table, truncate_metrics


def test_a_long_line_of_a_sample_goes_on_in_the_next() -> None:
    """Guards against stories on one long line with a scroll bar in TensorBoard, and against lost characters."""
    story = "One day, Emi lost a ring.  " + "She looked for it in the garden. " * 9
    lines = code_block(f"{story}\n\n  short", 100).split("\n")
    assert all(line.startswith("    ") and len(line) <= 104 for line in lines)
    assert "".join(line[4:] for line in lines[:-2]) == story
    assert lines[-2:] == ["    ", "      short"]


def test_without_a_width_every_line_stays_as_it_is() -> None:
    """Guards against wrapped YAML: the config is copied from TensorBoard."""
    text = "probes:\n- " + "word " * 60
    assert code_block(text) == "    probes:\n    - " + "word " * 60


def test_columns_of_a_table_are_aligned_and_cells_cannot_break_out() -> None:
    """Guards against tables that are readable only as rendered Markdown, and cells whose content adds a column or
    row."""
    assert table(["test", "exact"], [["this model", "9.0 %"], ["a|b\nc", "100.0 %"]]).split("\n") == [
        "| test       | exact   |",
        "| ---------- | ------- |",
        "| this model | 9.0 %   |",
        "| a\\|b c     | 100.0 % |",
    ]


def test_settings_reach_the_hparams_tab(tmp_path: Path) -> None:
    """Guards against sweeps whose runs cannot be compared, and `add_hparams`, which creates a second run for each
    run."""
    log = RunLog(tmp_path, 0)
    log.settings("my_run", plain_settings(TrainConfig(trainer=TrainerConfig(steps=7, minutes=None))))
    log.close()
    assert [path.name.split(".")[0] for path in tmp_path.glob("events*")] == ["events"]
    content = EventAccumulator(str(tmp_path)).Reload().PluginTagToContent(metadata.PLUGIN_NAME)
    session = metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])
    assert session.group_name == "my_run"
    assert session.hparams["optim.lr"].number_value == TrainConfig().optim.lr
    assert session.hparams["schedule.kind"].string_value == "cosine"
    assert session.hparams["trainer.steps"].number_value == 7
    assert session.hparams["trainer.test"].bool_value
    assert "trainer.minutes" not in session.hparams
    assert "attention.probes" not in session.hparams


def test_training_and_validation_loss_share_the_first_chart(tmp_path: Path) -> None:
    """Guards against losses in two charts behind a dozen others: TensorBoard combines equal tags of two runs."""
    log = RunLog(tmp_path, 0)
    log.scalars({"train/loss": 2.0, "train/gradient_norm": 1.0, "speed/mfu": None}, 5)
    log.scalars({"val/loss": 3.0, "val/perplexity": 20.0}, 5)
    log.close()
    training, validation = (EventAccumulator(str(folder)).Reload() for folder in (tmp_path, tmp_path / "val"))
    assert [training.Scalars("loss")[0].value, validation.Scalars("loss")[0].value] == [2.0, 3.0]
    assert validation.Tags()["scalars"] == ["loss"]
    assert sorted(training.Tags()["scalars"]) == ["loss", "train/gradient_norm", "val/perplexity"]


def test_partial_metrics_lines_are_dropped(tmp_path: Path) -> None:
    """Guards against a run that cannot be resumed because of undecodable bytes, and good lines lost because of a bad
    one."""
    path = tmp_path / "metrics.jsonl"
    one, two, three = (b'{"step": %d, "val/loss": 1.0}\n' % step for step in (1, 2, 3))
    for damage in (b'{"step": 2, "val', b"\0" * 30, b"\xff\xfe", b"[]", b"{}", b"2"):
        path.write_bytes(one + damage + b"\n" + two + three + damage)
        truncate_metrics(path, 2)
        assert path.read_bytes() == one + two
    file = path.stat().st_ino
    truncate_metrics(path, 2)
    assert path.stat().st_ino == file, "nothing to drop, nothing to write: a full disk does not matter then"


def points(folder: Path) -> list[tuple[str, int, float]]:
    """Return every scalar of all event files of a folder, read without TensorBoard's rules about restarts."""
    result = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                result.append((value.tag, event.step, value.tensor.float_val[0]))
    return result


def test_a_point_written_again_after_a_kill_is_there_once(tmp_path: Path) -> None:
    """Guards against points that a reader of all event files finds twice: repeated evaluations, steps after the last
    checkpoint, a record truncated by the kill."""
    log = RunLog(tmp_path, 0)
    for step in (1, 2, 3):
        log.scalars({"train/loss": 1 / step, "speed/mfu": 0.1}, step)
    log.scalars({"val/perplexity": 7.0, "val/chrf": 3.0}, 2)
    (file,) = tmp_path.glob("events.out.tfevents.*")
    file.write_bytes(file.read_bytes() + file.read_bytes()[-60:-20])
    again = RunLog(tmp_path, 2)
    again.scalars({"val/perplexity": 7.0, "val/chrf": 4.0}, 2)  # the same evaluation, one value differs
    again.scalars({"train/loss": 0.3}, 3)
    assert sorted(points(tmp_path)) == [
        ("loss", 1, 1.0),
        ("loss", 2, 0.5),
        ("loss", 3, pytest.approx(0.3)),
        ("speed/mfu", 1, pytest.approx(0.1)),
        ("speed/mfu", 2, pytest.approx(0.1)),
        ("val/chrf", 2, 4.0),
        ("val/perplexity", 2, 7.0),
    ]
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [point.value for point in events.Scalars("val/chrf")] == [4.0]


def test_an_event_file_that_cannot_be_rewritten_stops_no_run(tmp_path: Path) -> None:
    """Guards against a resumed run that ends because of its curves."""
    RunLog(tmp_path, 0).scalars({"train/loss": 1.0}, 3)
    (tmp_path / "events.out.tfevents.0.folder").mkdir()
    (tmp_path / "events.out.tfevents.1.other").write_bytes(b"not an event file" * 9)
    RunLog(tmp_path, 2).scalars({"train/loss": 2.0}, 3)
    assert points(tmp_path / "none") == []
    kept = [path for path in tmp_path.glob("events.out.tfevents.*") if path.is_file()]
    assert sum(1 for path in kept for event in EventFileLoader(str(path)).Load() if event.summary.value) == 1


def test_event_files_stay_in_order_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """Guards against a TensorBoard that never shows a resumed run: it reads files by name and does not go back."""
    for step in range(3):
        log = RunLog(tmp_path, step)
        log.scalars({"x": float(step)}, step + 1)
        log.close()
        newest = max(tmp_path.glob("events.*"))
        content = newest.read_bytes()
        assert sum(content == path.read_bytes() for path in tmp_path.glob("events.*")) == 1
        if step == 0:  # as if written before the clock was set back by years
            newest.rename(newest.with_name(f"events.out.tfevents.{time.time() + 1e8:017.6f}.host.1"))
    names = sorted(path.name for path in tmp_path.glob("events.*"))
    assert names[0].endswith(".host.1")
    assert len(names) == 3
    points = EventAccumulator(str(tmp_path)).Reload().Scalars("x")
    assert [point.step for point in points] == [1, 2, 3]
