"""Finding runs in a log folder."""

import os
from pathlib import Path

import pytest

from attention_maps.files.errors import NotThere
from attention_maps.tensorboard import runs
from attention_maps.tensorboard.runs import Runs, roots


def touch(run: Path, *names: str) -> None:
    """Create empty recordings: the search only uses names."""
    (run / "attention").mkdir(parents=True, exist_ok=True)
    for name in names:
        (run / "attention" / name).touch()


def names_below(folder: Path) -> list[str]:
    """Return the names of the runs below a folder."""
    return list(Runs(roots(str(folder), None)).find())


def test_only_recordings_count(tmp_path: Path) -> None:
    """Guards against stray and partial files, folders, and two spellings of one number listed as steps."""
    touch(
        tmp_path / "run",
        "step_00000000.safetensors",
        "step_123456789.safetensors",
        "generated_00001.safetensors",
        "generated_123456.safetensors",
        "step_1.safetensors",
        "step_000000001.safetensors",
        ".step_00000002.safetensors.99",
        "step_00000003.safetensors.bak",
        "generated_000001.safetensors",
        "step_٠٠٠٠٠٠٠٤.safetensors",
        "notes.txt",
        "step_" + "9" * 16 + ".safetensors",
        "STEP_00000005.safetensors",
    )
    (tmp_path / "run" / "attention" / "step_00000006.safetensors").mkdir()
    (tmp_path / "run" / "attention" / "step_00000007.safetensors").symlink_to(tmp_path / "nowhere")
    run = Runs(roots(str(tmp_path), None)).run("run")
    assert (list(run.steps), list(run.generated)) == ([0, 123_456_789], [1, 123_456])
    assert run.path("step_00000000") == str(tmp_path / "run" / "attention" / "step_00000000.safetensors")
    for name in (
        "step_00000001",
        "step_0",
        "generated_00002",
        "step_00000000.safetensors",
        "",
        "../run/attention/step_00000000",
    ):
        with pytest.raises(NotThere):
            run.path(name)


def test_runs_are_named_as_in_the_other_tabs(tmp_path: Path) -> None:
    """Guards the names: paths below the log folder, `.` for itself, also where a run is called like the recordings'
    folder."""
    for run in (".", "b", "a/deep/one", "attention", "名前 1"):
        touch(tmp_path / run, "step_00000000.safetensors")
    touch(tmp_path / "empty")
    (tmp_path / "a" / "step_00000001.safetensors").touch()  # not in a folder for recordings
    assert names_below(tmp_path) == [".", "a/deep/one", "attention", "b", "名前 1"]
    assert names_below(tmp_path / "b" / "attention") == ["."], "the recordings' folder itself"


def test_links_are_followed_without_cycles(tmp_path: Path) -> None:
    """Guards log folders made of links to runs elsewhere, and links to a folder above or to themselves, which would
    never end."""
    touch(tmp_path / "elsewhere", "step_00000000.safetensors")
    logs = tmp_path / "logs"
    touch(logs / "here", "step_00000000.safetensors")
    (logs / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (logs / "again").symlink_to(logs / "here", target_is_directory=True)
    (logs / "here" / "up").symlink_to(logs, target_is_directory=True)
    (logs / "here" / "self").symlink_to(logs / "here", target_is_directory=True)
    (logs / "broken").symlink_to(tmp_path / "nowhere", target_is_directory=True)
    (logs / "loop").symlink_to("loop")
    (logs / "here" / "attention" / "step_00000001.safetensors").symlink_to("step_00000001.safetensors")
    assert names_below(logs) == ["again", "here", "linked"]


def test_search_of_mutually_linked_folders_terminates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an endless search of folders that link to each other."""
    monkeypatch.setattr(runs, "MOST_FOLDERS", 500)
    for name in "abcdefgh":
        touch(tmp_path / name, "step_00000000.safetensors")
        for other in "abcdefgh":
            (tmp_path / name / other).symlink_to(tmp_path / other, target_is_directory=True)
    assert set("abcdefgh") <= set(names_below(tmp_path))


def test_search_is_breadth_first_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against slow page loads if the log directory is a home folder."""
    touch(tmp_path / "z", "step_00000000.safetensors")
    for number in range(40):
        (tmp_path / "a" / f"{number:02}").mkdir(parents=True)
    touch(tmp_path / Path(*["deep"] * 20), "step_00000000.safetensors")
    assert names_below(tmp_path) == ["z"]
    assert caplog.text == ""
    monkeypatch.setattr(runs, "MOST_FOLDERS", 50)
    assert names_below(tmp_path) == ["z"]
    assert "more than 50 folders" in caplog.text


def test_search_results_are_cached(tmp_path: Path) -> None:
    """Guards against a search at every page load for every tab."""
    touch(tmp_path / "run", "step_00000000.safetensors")
    searched = Runs(roots(str(tmp_path), None))
    assert searched.find() is searched.find()


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX only")
def test_run_name_that_is_not_utf8_can_be_requested(tmp_path: Path) -> None:
    """Guards against names that fail in the browser or in JSON."""
    touch(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")), "step_00000000.safetensors")
    searched = Runs(roots(str(tmp_path), None))
    assert list(searched.find()) == ["caf\ufffd"]
    assert Path(searched.run("caf\ufffd").path("step_00000000")).is_file()


def test_unreadable_folder_counts_as_empty(tmp_path: Path) -> None:
    """Guards against runs hidden by an unreadable folder."""
    touch(tmp_path / "a", "step_00000000.safetensors")
    touch(tmp_path / "b", "step_00000000.safetensors")
    (tmp_path / "b").chmod(0)
    try:
        assert "a" in names_below(tmp_path)
    finally:
        (tmp_path / "b").chmod(0o755)


def test_named_folders_are_searched_under_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against ignoring `--logdir_spec`, with which TensorBoard passes no log directory to plugins."""
    for run in ("first", "second/inner", "third/inner"):
        touch(tmp_path / run, "step_00000000.safetensors")
    spec = f"one:{tmp_path}/first,two:{tmp_path}/second,{tmp_path}/third,"
    assert list(Runs(roots(None, spec)).find()) == ["inner", "one", "two/inner"]
    assert roots(None, "/a:b/c,gs://bucket/x") == [("", "/a:b/c"), ("", "gs://bucket/x")]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert roots("~/first", None) == [("", f"{tmp_path}/first")]
    assert roots(None, "x:~/first") == [("x", f"{tmp_path}/first")]
    assert roots(None, None) == []
