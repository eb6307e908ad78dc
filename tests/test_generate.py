"""generate.py as a user runs it: in a real shell, from files, with a copied run folder."""

import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, environment

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_nasty_prompts_pass_through_a_real_shell(shell: Run, tmp_path: Path) -> None:
    """Guards against a prompt that the shell passes correctly but our program corrupts on its way to the output; its
    parsing is tested without processes."""
    prompts = [
        "Hello, world! a=b (c)",
        "${oc.env:HOME} $HOME `ls`",
        "line one\nline two\n",
        "",
        "emoji 🎉 𠮷",
        "no UTF-8: \udcff",
    ]
    lines = []
    for number, prompt in enumerate(prompts, 1):
        out = shlex.quote(str(tmp_path / str(number)))
        lines.append(
            f"generate run=runs/gpt max_tokens=1 prompt={shlex.quote(prompt)} > {out} || echo failed: {number} >&2 &"
        )
        if number % (os.cpu_count() or 1) == 0:
            lines.append("wait")
    done = shell("\n".join([*lines, "wait"]))
    assert done.stderr == ""
    texts = [(tmp_path / str(number)).read_bytes() for number in range(1, len(prompts) + 1)]
    assert [text[: len(os.fsencode(prompt))] for text, prompt in zip(texts, prompts, strict=True)] == [
        os.fsencode(prompt) for prompt in prompts
    ]
    assert all(text.endswith(b"\n") for text in texts)


def test_the_locale_changes_nothing(shell: Run) -> None:
    """Guards against a UnicodeEncodeError, or a prompt decoded with another encoding, if the locale is not UTF-8."""
    line = "generate run=runs/gpt prompt='水 and more' max_tokens=5; printf 'Ken runs.' | generate run=runs/translate"
    plain = shell(line)
    assert plain.stdout.startswith("水 and more")
    assert shell(f"export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0; {line}").stdout == plain.stdout


def test_a_run_folder_is_taken_as_typed_but_for_the_home_folder(shell: Run, trained: Path) -> None:
    """Guards against a `~` inside quotes, which no shell expands, and OmegaConf's interpolation within the folder's
    name."""
    shutil.copytree(trained / "runs" / "gpt", trained / "${oc.env:HOME}, a=b", dirs_exist_ok=True)
    line = "HOME=$PWD generate run='~/runs/gpt' prompt=x && generate run='${oc.env:HOME}, a=b' prompt=x"
    done = shell(line)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("x")


def test_the_same_seed_writes_the_same_text_and_another_seed_another(generate: Run) -> None:
    """Guards against a seed that is ignored."""
    one, again, other = (
        generate("run=runs/gpt", "prompt=The", "max_tokens=30", f"seed={seed}").stdout for seed in (1, 1, 2)
    )
    assert one == again != other


def test_weights_are_rounded_on_request_only_and_said_so(shell: Run, generate: Run) -> None:
    """Guards against int8 weights without `quantize=int8`, and rounding without a note."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    line = "generate run=runs/gpt engine=ctranslate2 prompt=Once max_tokens=8"
    exact, rounded = shell(line), shell(f"{line} quantize=int8")
    assert (exact.returncode, rounded.returncode) == (0, 0)
    assert exact.stderr == ""
    assert rounded.stderr == "note: weights and activations are rounded to 8 bits (quantize=int8)\n"
    assert rounded.stdout.startswith("Once")
    assert "torch has no fast int8 weights" in generate("run=runs/gpt", "prompt=a", "quantize=int8").stderr
    wrong = generate("run=runs/gpt", "prompt=a", "quantize=int4")
    assert wrong.returncode == 2
    assert "quantize=int4: must be float32, bf16, int8 or null" in wrong.stderr


def test_stop_text_ends_a_sample_and_is_not_shown(generate: Run) -> None:
    """Guards against a partly printed stop text that spans two tokens, memory allocated for `max_tokens`, and top_k
    larger than the vocabulary."""
    full = generate("run=runs/gpt", "prompt=The", "max_tokens=60").stdout.removesuffix("\n")
    stop = full[12:15]
    done = generate("run=runs/gpt", "prompt=The", f"max_tokens={10**13}", f"top_k={10**9}", f"stop={stop}")
    assert done.stderr == ""
    assert done.stdout == full[: full.index(stop, 3)] + "\n"


def test_samples_written_together_are_those_written_alone(generate: Run) -> None:
    """Guards against samples in another order, with the wrong seed, or continued after the stop text, also in the
    second batch of samples."""
    settings = ("run=runs/gpt", "prompt=The", "max_tokens=40", "stop=e")
    together = generate(*settings, "samples=34", "seed=5").stdout.split("\n" + "-" * 20 + "\n")
    alone = [generate(*settings, f"seed={seed}").stdout.removesuffix("\n") for seed in (5, 6, 36, 38)]
    assert len(together) == 34
    assert [together[0], together[1], together[31], together[33].removesuffix("\n")] == alone
    assert len({len(text) for text in together}) > 5  # the texts ended at different steps


def test_a_prompt_beyond_the_context_is_told_what_the_model_reads(generate: Run) -> None:
    """Guards against a missing or wrong note about the part of the prompt that the model sees."""
    done = generate("run=runs/gpt", f"prompt={'a dog ' * 40}", "max_tokens=3")
    assert done.stdout.startswith("a dog " * 40)
    assert "the prompt has 81 tokens, but the model sees at most 32 at a time" in done.stderr


def test_500_lines_keep_order_and_count_empty_lines_included(shell: Run, generate: Run) -> None:
    """Guards against length-sorted batches in the wrong order, dropped blank lines, and notes about nothing."""
    sentences = ["Emi likes apples.", "", "The dog runs.", "Ken reads a book in the park because it is quiet.", "   "]
    lines = [sentences[number % 5] for number in range(500)]
    done = shell("generate run=runs/translate beam_size=2", "".join(line + "\n" for line in lines).encode())
    assert (done.returncode, done.stderr) == (0, "")
    answers = done.stdout.split("\n")
    assert answers.pop() == ""
    assert len(answers) == 500
    for number in range(5):
        alone = generate("run=runs/translate", "beam_size=2", f"prompt={sentences[number]}").stdout.removesuffix("\n")
        assert set(answers[number::5]) == {alone}
        assert (alone == "") == (sentences[number].strip() == "")


def test_translations_are_written_while_the_input_goes_on_and_kept_at_ctrl_c(trained: Path, shell: Run) -> None:
    """Guards against translations that are printed only at the end, or lost, incomplete lines, a traceback, and exit
    code 0 after Ctrl-C."""
    lines = [
        f"{name} {verb} a {thing}.\n"
        for name in ("Emi", "Ken")
        for verb in ("has", "likes")
        for thing in ("dog", "book")
    ]
    expected = shell("generate run=runs/translate beam_size=1", "".join(lines).encode()).stdout.splitlines()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "generate.py"), "run=runs/translate", "beam_size=1", "batch_tokens=64"],
        cwd=trained,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    patience = threading.Timer(120, process.kill)
    patience.start()
    process.stdin.write("".join(lines) * 20)
    process.stdin.flush()  # the input stays open
    first = [process.stdout.readline() for _ in range(40)]
    process.send_signal(signal.SIGINT)
    rest, errors = process.stdout.read(), process.stderr.read()  # `communicate` would lose what `readline` read ahead
    assert process.wait(60) == 130
    patience.cancel()
    process.stdin.close()
    assert errors == ""
    written = "".join(first) + rest
    assert written.endswith("\n")
    assert written.splitlines() == (expected * 20)[: written.count("\n")]


def test_a_slow_stream_is_translated_line_by_line(trained: Path, shell: Run) -> None:
    """Guards against output that is delayed until 64 lines have been typed, and translations in another order."""
    lines = ["Emi has a dog.\n", "\n", "Ken likes a book.\n", "Emi ran.\n", "Ken ran.\n"]
    expected = shell("generate run=runs/translate n_best=2", "".join(lines).encode()).stdout.splitlines()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "generate.py"), "run=runs/translate", "n_best=2"],
        cwd=trained,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    patience = threading.Timer(60, process.kill)
    patience.start()
    answers = []
    for line in lines[:3]:
        process.stdin.write(line)
        process.stdin.flush()
        answers += [process.stdout.readline().rstrip("\n") for _ in range(1 if line == "\n" else 2)]
    patience.cancel()
    rest, errors = process.communicate("".join(lines[3:]), timeout=60)
    assert errors == ""
    assert answers + rest.splitlines() == expected


def test_n_best_lists_hypotheses_by_score(generate: Run) -> None:
    """Guards against an unsorted or incomplete n-best list."""
    done = generate("run=runs/translate", "prompt=Emi likes apples.", "beam_size=4", "n_best=3")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[1] for row in rows] == ["1", "2", "3"]
    scores = [float(row[2]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert len({row[3] for row in rows}) == 3
    assert {row[0] for row in rows} == {"1"}


def test_a_run_folder_copied_elsewhere_writes_and_translates(trained: Path, tmp_path: Path, program: Run) -> None:
    """Guards against a run that requires its data, its tokenizer's old path or the folder in which it was trained."""
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
        ("run=runs/gpt prompt=x beam_size=4", "beam_size: runs/gpt generates text"),
        ("run=runs/translate prompt=x top_k=4 temperature=1", "temperature: runs/translate translates"),
        ("run=runs/gpt prompt=x top_p=2", "top_p=2"),
        ("run=runs/gpt prompt=x temprature=1", "did you mean temperature"),
        ("run=runs prompt=x", "no config.yaml"),
        ("run= prompt=x", "run=runs/NAME is needed"),
        ("run=~nobody/x prompt=x", "no such run folder"),
        ("run=runs/gpt prompt=x seed='???'", "missing mandatory value: seed"),
        ("run=runs/gpt prompt=x temperature='${foo}'", "temperature: Interpolation key 'foo' not found"),
        (
            "run=runs/gpt Emi had a dog",
            "Emi had a dog: not understood; pass text to continue or translate as prompt='…'",
        ),
    ],
)
def test_wrong_use_gets_a_message_and_exit_code_2(generate: Run, arguments: str, words: str) -> None:
    """Guards against a traceback, and a setting of the other task that is silently ignored."""
    done = generate(*shlex.split(arguments))
    assert done.returncode == 2
    assert words in done.stderr
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())
    assert done.stdout == ""


def test_closed_standard_input_is_one_message(shell: Run) -> None:
    """Guards against a traceback where the text should come from."""
    done = shell("generate run=runs/gpt <&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input, which is closed" in done.stderr
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_device_that_is_not_there_is_named_by_its_setting(generate: Run) -> None:
    """Guards against advice about a setting that only train.py has."""
    done = generate("run=runs/gpt", "prompt=x", "device=cuda")
    assert (done.returncode, done.stderr) == (
        2,
        "error: device=cuda: torch found no CUDA GPU; device=cpu always works\n",
    )


def test_input_that_is_not_utf8_is_refused_with_its_line(shell: Run) -> None:
    """Guards against a UnicodeDecodeError traceback, and the loss of the lines before the invalid line."""
    done = shell("generate run=runs/translate", "Ken runs.\n\nbad: \xff\nfine\n".encode("latin-1"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard input: line 3 is not UTF-8 (its byte 6)")
    assert done.stdout.count("\n") == 2
