"""Run folders of other versions, through the real command lines."""

from pathlib import Path

import pytest

from configs.errors import UserError
from tests.conftest import TINY, Run
from training.run_folder.saved_config import load_config


def old_run(in_process: Run, book: Path, position: str) -> Path:
    """Return a tiny run whose config.yaml has no version, like those of early versions."""
    text = ["data=text", f"data.path={book}", "tokenizer=char"]
    done = in_process("train.py", *TINY, *text, f"model.position={position}", "name=old", "trainer.test=false")
    assert done.returncode == 0, done.stderr
    config = book.parent / "runs" / "old" / "config.yaml"
    text = config.read_text(encoding="utf-8")
    assert text.startswith("format: 2\n")
    config.write_text(text.removeprefix("format: 2\n"), encoding="utf-8")
    return config


def test_rotary_weights_of_an_older_format_are_refused(in_process: Run, book: Path) -> None:
    """Guards against weights with another numbering of rotary pairs: they load, and silently generate nonsense."""
    config = old_run(in_process, book, "rotary")
    before = config.read_text(encoding="utf-8")
    for script, *arguments in (
        ("generate.py", "run=runs/old", "prompt=The"),
        ("train.py", "resume=runs/old", "trainer.steps=8"),
        ("train.py", *TINY, "data=text", f"data.path={book}", "init_from=runs/old", "name=new"),
    ):
        done = in_process(script, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: runs/old: was trained with a different pairing of rotary positions")
        assert "train it again" in done.stderr
        assert done.stderr.count("\n") == 1
    assert config.read_text(encoding="utf-8") == before
    assert not (book.parent / "runs" / "new").exists()


def test_a_run_of_a_newer_version_is_refused(in_process: Run, book: Path) -> None:
    """Guards against a future format read with today's rules."""
    config = old_run(in_process, book, "learned")
    config.write_text("format: 3\n" + config.read_text(encoding="utf-8"), encoding="utf-8")
    done = in_process("generate.py", "run=runs/old", "prompt=The")
    assert done.returncode == 2
    assert "newer version" in done.stderr


def test_other_positions_of_an_older_format_still_serve(in_process: Run, book: Path) -> None:
    """Guards against rejecting runs whose weights have kept their meaning."""
    config = old_run(in_process, book, "learned")
    written = in_process("generate.py", "run=runs/old", "prompt=The", "max_tokens=5")
    assert (written.returncode, written.stderr.count("error")) == (0, 0)
    resumed = in_process("train.py", "resume=runs/old", "trainer.steps=8")
    assert resumed.returncode == 0, resumed.stderr
    assert config.read_text(encoding="utf-8").startswith("format: 2\n")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("demo", "runs/demo"),
        ("runs/demmo", "runs/demo"),
        ("elsewhere/othr", "elsewhere/other"),
        ("runs/demo/checkpoints/best", "runs/demo"),
        ("runs/demo/config.yaml", "runs/demo"),
    ],
)
def test_a_mistyped_run_folder_gets_the_one_that_was_meant(
    given: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against rejecting `run=demo` without mentioning `runs/demo`."""
    monkeypatch.chdir(tmp_path)
    for run in ("runs/demo", "elsewhere/other"):
        (tmp_path / run / "checkpoints" / "best").mkdir(parents=True)
        (tmp_path / run / "config.yaml").touch()
    with pytest.raises(UserError, match=rf"\(did you mean {meant}\?\)$"):
        load_config(Path(given))
    with pytest.raises(UserError, match=r"no such run folder$"):
        load_config(Path("nothing-like-it"))
