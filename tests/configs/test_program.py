"""Code shared by all commands: UTF-8, errors in one line, exit codes, Ctrl-C at any moment."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.errors import UserError
from configs.program import complain, exit_code_of, expanded, importing, speak_utf8
from tests.conftest import ROOT, TINY, environment, train_command
from training.run_folder.terminal import print_line

TRAIN, GENERATE, EVALUATE = (str(ROOT / f"{name}.py") for name in ("train", "generate", "evaluate"))
START_TORCH = """
from generate import start_engine
from generation.config import GenerateConfig
start_engine(GenerateConfig(run="runs/none"))
"""


def run(folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment() | changes,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("value", ["x" * 100_000, "x\0\n" * 1_000])
def test_an_error_that_quotes_a_huge_value_stays_readable(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a screen full of one mistyped value, or of codes; the beginning and the end are shown."""
    complain(f"data.path=xxx{value}xxx: no such file")
    shown = capsys.readouterr().err
    assert len(shown) < 2100
    assert shown.startswith("error: data.path=xxx")
    assert shown.endswith("xxx: no such file\n")
    assert " […] " in shown


@pytest.mark.parametrize("script", [TRAIN, GENERATE, EVALUATE])
def test_windows_is_refused_in_one_line(script: str, tmp_path: Path) -> None:
    """Guards against a traceback about `signal.SIGHUP` on Windows, or about links after an hour of training."""
    as_windows = (
        "import configs.program, runpy, signal, sys; del signal.SIGHUP; sys.platform = 'win32';"
        f" runpy.run_path({script!r})"
    )
    done = run(tmp_path, "-c", as_windows)
    assert done.returncode == 2
    assert done.stderr == "error: Windows is not supported; WSL, the Windows Subsystem for Linux, is\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ([TRAIN, "--help"], "…"),
        ([GENERATE, "--help"], ""),
        ([EVALUATE, "--help"], ""),
        (["-m", "attention_maps", "--help"], ""),
        (["-m", "benchmarks", "--help"], ""),
        (["-m", "data.primer", "--pairs", "3"], "。"),
    ],
)
def test_every_command_prints_utf8_whatever_the_locale(command: list[str], shown: str, tmp_path: Path) -> None:
    """Guards against a run killed by the first character that the terminal's encoding lacks."""
    done = run(tmp_path, *command, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


def interrupting(tmp_path: Path, module: str) -> dict[str, str]:
    """Return an environment in which Ctrl-C arrives when `module` is imported, in a callback that loses exceptions."""
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import os, signal, sys, weakref
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            weakref.finalize(Interrupt(), os.kill, os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
""",
        encoding="utf-8",
    )
    return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("omegaconf", [TRAIN, "trainer.steps=1"]),
        ("torch", [TRAIN, "trainer.steps=1"]),
        ("omegaconf", [GENERATE, "run=runs/none"]),
        ("torch", ["-c", START_TORCH]),  # what generate.py does once it has found the run
    ],
)
def test_interrupt_during_imports_exits_silently(module: str, command: list[str], tmp_path: Path) -> None:
    """Guards against a traceback through a hundred imports, and a lost interrupt after which training begins."""
    done = run(tmp_path, *command, **interrupting(tmp_path, module))
    assert (done.returncode, done.stdout, done.stderr) == (-2, "", "")  # which a shell reports as 130
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["sitecustomize.py"]


def test_interrupts_are_exceptions_again_after_the_imports() -> None:
    """Guards against Ctrl-C during training that kills without saving, and a background job that receives one."""
    import signal

    before = signal.getsignal(signal.SIGINT)
    try:
        for handler, within in ((signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)):
            signal.signal(signal.SIGINT, handler)
            with importing():
                assert signal.getsignal(signal.SIGINT) == within
            assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("first", "second\nwith \x1b[31m"), 2, "error: first\nerror: second[A]with [1B][31m\n"),
        (PermissionError(13, "Permission denied", "runs"), 2, "error: runs: Permission denied\n"),
        (OSError("odd"), 2, "error: output: odd\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_end_has_its_exit_code_and_a_line_for_each_problem(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a traceback for an error that the user can fix, multi-line messages, and control characters in
    them."""
    assert exit_code_of(lambda: raising(error)) == code
    assert capsys.readouterr().err == said


def test_an_error_that_nobody_expects_keeps_its_traceback() -> None:
    """Guards against a bug of the program reported as a mistake of the user."""
    with pytest.raises(TypeError):
        exit_code_of(lambda: raising(TypeError()))


def test_closed_streams_take_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards `train.py … >&- 2>&-`, with which Python has no output streams."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert exit_code_of(lambda: raising(UserError("x"))) == 2
    print("nobody reads this")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
def test_work_goes_on_where_its_lines_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against hours of training ended by a full disk under `train.py > out.txt`, although log.txt has all
    lines."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        for _ in range(3):
            print_line("a line")


def test_a_path_that_is_not_utf8_is_trained_on(
    book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards against a log or a config that cannot be written or read for a file name in another encoding."""
    monkeypatch.chdir(tmp_path)
    settings = [*TINY, "data=text", "tokenizer=char", "trainer.steps=1", "trainer.test=false", "name=run"]
    before, after = os.fsdecode(b"caf\xe9.txt"), os.fsdecode(b"caf\xe8.txt")
    for path, arguments in ((before, settings), (after, ["resume=runs/run", "trainer.steps=2"])):
        Path(path).write_bytes(book.read_bytes())
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments, f"data.path={path}"])
        train_command()
    capfd.readouterr()  # a report with surrogates cannot be sent between pytest's processes
    assert b"caf\xe8.txt (was caf\xe9.txt)" in (tmp_path / "runs" / "run" / "log.txt").read_bytes()


def test_bytes_that_are_not_utf8_come_out_as_they_went_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against corrupting a prompt in another encoding."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    speak_utf8()
    print("→ \udcff", flush=True)
    assert out.getvalue() == "→ ".encode() + b"\xff\n"


def test_the_home_folder_is_found_and_an_unknown_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against RuntimeError for `~nobody`."""
    monkeypatch.setenv("HOME", "/home/me")
    assert [str(expanded(path)) for path in ("~/a", "~no-such-user/a", "a~b")] == [
        "/home/me/a",
        "~no-such-user/a",
        "a~b",
    ]


def test_messages_keep_the_spaces_of_japanese_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a file name in a message that the user cannot find again; control characters are still
    replaced."""
    complain("データ\u3000セット.txt\x1b")
    assert capsys.readouterr().err == "error: データ\u3000セット.txt[1B]\n"
