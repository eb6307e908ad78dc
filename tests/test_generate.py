"""generate.py as a user calls it: through a real shell, from files, from a folder carried elsewhere."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY, environment
from tests.training.test_command_line import NASTY

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny run of each task; the story model spells unknown characters as bytes."""
    folder = tmp_path_factory.mktemp("trained")
    for task, more in {
        "gpt": ["tokenizer.byte_fallback=true"],
        "translate": ["trainer.steps=40"],
    }.items():
        done = subprocess.run(
            [
                sys.executable, str(ROOT / "train.py"), *TINY, f"task={task}", f"name={task}", "trainer.test=false",
                "trainer.evaluate_every=50", *more,
            ],
            cwd=folder, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def shell(trained: Path) -> Run:
    """Run a line in bash, in the folder with the runs; `generate …` is generate.py."""

    def run(line: str, input: bytes = b"") -> subprocess.CompletedProcess[str]:
        program = f"{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'generate.py'))}"
        script = f'generate() {{ {program} "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=trained, env=environment(), input=input, capture_output=True, check=False
        )
        return subprocess.CompletedProcess(line, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def test_nasty_prompts_pass_through_a_real_shell(shell: Run) -> None:
    """Guards: a prompt that the shell can pass but our command line mangles: each must come back at the head of the text."""
    chosen = [prompt for prompt in NASTY if prompt]
    line = "; ".join(
        f"generate run=runs/gpt max_tokens=1 prompt={shlex.quote(prompt)}; printf '\\0'" for prompt in chosen[::3]
    )
    done = shell(line)
    assert done.returncode == 0, done.stderr
    texts = done.stdout.split("\0")[:-1]
    assert [text.startswith(prompt) for text, prompt in zip(texts, chosen[::3], strict=True)] == [True] * len(texts)


def test_the_same_seed_writes_the_same_text_and_another_seed_another(shell: Run) -> None:
    """Guards: a seed that is ignored."""
    done = shell("for s in 1 1 2; do generate run=runs/gpt prompt=The max_tokens=30 seed=$s; printf '\\0'; done")
    one, again, other = done.stdout.split("\0")[:3]
    assert one == again != other


def test_stop_text_ends_a_sample_and_is_not_shown(shell: Run) -> None:
    """Guards: a stop text that spans two tokens being printed in part."""
    full = shell("generate run=runs/gpt prompt=The max_tokens=60").stdout.removesuffix("\n")
    stop = full[12:15]
    done = shell(f"generate run=runs/gpt prompt=The max_tokens=60 stop={shlex.quote(stop)}")
    assert done.stdout == full[: full.index(stop, 3)] + "\n"


def test_500_lines_keep_order_and_count_empty_lines_included(shell: Run) -> None:
    """Guards: length-sorted batches coming back in the wrong order; blank lines being dropped."""
    sentences = ["Emi likes apples.", "", "The dog runs.", "Ken reads a book in the park because it is quiet.", "   "]
    lines = [sentences[number % 5] for number in range(500)]
    done = shell("generate run=runs/translate beam_size=2", "".join(line + "\n" for line in lines).encode())
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")
    assert answers.pop() == ""
    assert len(answers) == 500
    for number in range(5):
        alone = shell(
            "generate run=runs/translate beam_size=2", (sentences[number] + "\n").encode()
        ).stdout.removesuffix("\n")
        assert set(answers[number::5]) == {alone}
        assert (alone == "") == (sentences[number].strip() == "")


def test_n_best_lists_hypotheses_by_score(shell: Run) -> None:
    """Guards: an unsorted or short n-best list."""
    done = shell("generate run=runs/translate prompt='Emi likes apples.' beam_size=4 n_best=3")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert len({row[2] for row in rows}) == 3


def test_a_run_folder_copied_elsewhere_writes_and_translates(trained: Path, tmp_path: Path, program: Run) -> None:
    """Guards: a run that needs its data, its tokenizer's old path or the folder it was trained in."""
    for task in ("gpt", "translate"):
        shutil.copytree(trained / "runs" / task, tmp_path / "elsewhere" / task)
        prompt = "prompt=The dog runs."
        command = [sys.executable, str(ROOT / "generate.py"), f"run=runs/{task}", prompt]
        there = subprocess.run(command, cwd=trained, env=environment(), capture_output=True, text=True, check=False)
        here = program("generate.py", f"run=elsewhere/{task}", prompt)
        assert here.returncode == 0, here.stderr
        assert here.stdout == there.stdout
        assert here.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("run=runs/none prompt=x", "no such run folder"),
        ("prompt=x", "run=runs/NAME is needed"),
        ("run=runs/gpt prompt=x beam_size=4", "beam_size: runs/gpt writes text"),
        ("run=runs/translate prompt=x top_k=4 temperature=1", "temperature: runs/translate translates"),
        ("run=runs/gpt prompt=x top_p=2", "top_p=2"),
        ("run=runs/gpt prompt=x temprature=1", "did you mean temperature"),
        ("run=runs prompt=x", "no config.yaml"),
    ],
)
def test_wrong_use_gets_a_message_and_exit_code_2(shell: Run, arguments: str, words: str) -> None:
    """Guards: a traceback, or a setting that is silently ignored because it belongs to the other task."""
    done = shell(f"generate {arguments}")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_input_that_is_not_utf8_is_refused_with_its_line(shell: Run) -> None:
    """Guards: a UnicodeDecodeError traceback."""
    done = shell("generate run=runs/translate", "fine\nbad: \xff\n".encode("latin-1"))
    assert done.returncode == 2
    assert "line 2" in done.stderr
