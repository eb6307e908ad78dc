"""Text in the logs of a run."""

from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from torch.utils.tensorboard import summary

from training.config import TrainConfig, TrainerConfig, plain_settings
from training.run_folder.event_file import EventFile
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


def test_settings_reach_tensorboards_hparams_tab_without_a_run_of_their_own(tmp_path: Path) -> None:
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


def test_curves_of_a_run_from_before_stay_and_those_after_the_resumed_step_are_dropped(tmp_path: Path) -> None:
    """Guards against points of an older version, whose losses had other tags, and points of repeated steps."""
    older = EventFile(tmp_path, 0)
    for step in (1, 2, 3):
        older.add_summary(summary.scalar("train/loss", 1 / step), step)
    log = RunLog(tmp_path, 2)
    log.scalars({"train/loss": 0.25, "val/loss": 0.5}, 3)
    log.close()
    log = RunLog(tmp_path, 2)
    log.scalars({"train/loss": 0.25, "val/loss": 0.5}, 3)
    log.close()
    training, validation = (EventAccumulator(str(folder)).Reload() for folder in (tmp_path, tmp_path / "val"))
    assert [point.step for point in training.Scalars("train/loss")] == [1, 2]
    assert [point.step for point in training.Scalars("loss")] == [3]
    assert [point.step for point in validation.Scalars("loss")] == [3]


def test_what_a_crash_leaves_of_a_line_is_dropped_and_the_lines_around_it_are_kept(tmp_path: Path) -> None:
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
