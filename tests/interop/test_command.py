"""export.py as a command: a folder that is complete or absent, and errors that name the setting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoConfig

from configs.atomic_folder import check_new, whole_folder
from configs.errors import UserError
from interop.formats import FORMATS, exporter
from tests.conftest import environment, export_command, generate_command
from tests.training.evaluation.reports.programs import command


def test_a_run_is_exported_once(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards the whole way from a run folder, and against overwriting."""
    run, to = f"run={trained}/runs/gpt", f"to={tmp_path}/out"
    assert command(monkeypatch, export_command, run, to) == 0
    assert "logits equal" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "README.md",
        "chumoku_tokenizer.model",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert AutoConfig.from_pretrained(tmp_path / "out").vocab_size == 700

    assert command(monkeypatch, export_command, run, to) == 2
    assert capsys.readouterr().err == f"error: {to}: exists already; choose another folder, or delete it\n"


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_the_code_in_the_model_card_of_ctranslate2_works(
    task: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a folder without a model card, and examples with names that CTranslate2 does not know."""
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, export_command, f"run={trained}/runs/{task}", "to=out", "format=ctranslate2") == 0
    card = Path("out/README.md").read_text(encoding="utf-8")
    assert "library_name: ctranslate2" in card
    code = card.partition("```python\n")[2].partition("```")[0].replace("FOLDER", "out")
    if task == "gpt":
        code = code.replace("0.8", "0.001")  # the most likely tokens
        ours = ["prompt=Once upon a time", "temperature=0", "max_tokens=16"]
    else:
        ours = ["prompt=I like apples."]
    capsys.readouterr()
    exec(code)
    result = capsys.readouterr().out
    assert command(monkeypatch, generate_command, f"run={trained}/runs/{task}", *ours) == 0
    assert result.strip() == capsys.readouterr().out.strip()


def test_an_ensemble_is_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against an export of the first of several models."""
    run = f"{trained}/runs/gpt"
    assert command(monkeypatch, export_command, f"run={run},{run}", f"to={tmp_path}/out") == 2
    assert "an ensemble is several models" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_all_problems_are_reported_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against one error per attempt."""
    assert command(monkeypatch, export_command, "too=x", "checkpoint=x", "format=word") == 2
    errors = capsys.readouterr().err.splitlines()
    assert [error.split("=")[0].split(":")[1].strip() for error in errors] == [
        "too",
        "format",
        "run",
        "to",
        "checkpoint",
    ]


def test_help_lists_every_setting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a setting without documentation."""
    assert command(monkeypatch, export_command, "--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {name}=" in shown for name in ("run", "to", "format", "checkpoint"))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the message for an installation without the extra."""
    monkeypatch.setitem(FORMATS, "huggingface", (*FORMATS["huggingface"][:2], ("no_such_package",)))
    with pytest.raises(UserError, match=r"needs no_such_package, which is not installed: pip install -e '.\[export\]'"):
        exporter("huggingface")


def test_a_folder_is_complete_or_absent(tmp_path: Path) -> None:
    """Guards against a folder with some of its files after an error."""

    def fail() -> None:
        with whole_folder(tmp_path / "a" / "out") as folder:
            (folder / "config.json").write_text("{}")
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        fail()
    assert list(tmp_path.iterdir()) == []
    with whole_folder(tmp_path / "out") as folder:
        (folder / "config.json").write_text("{}")
        assert not (tmp_path / "out").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["config.json"]
    with pytest.raises(UserError, match=r"to=.*out: exists already"):
        check_new(tmp_path / "out", "to")
    with pytest.raises(UserError, match="is a file"):
        check_new(tmp_path / "out" / "config.json" / "more", "to")


@pytest.mark.parametrize("format_", ["huggingface", "ctranslate2", "gguf"])
def test_a_full_disk_is_one_sentence(format_: str, trained: Path, tmp_path: Path) -> None:
    """Guards against the traceback of a library, an error without a name, and half a folder."""
    limited = (
        "import resource, sys, export\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "export.run_guarded(export.main)"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, f"run={trained}/runs/gpt", "to=above/out", f"format={format_}"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: above/out: ")
    assert list(tmp_path.iterdir()) == []
