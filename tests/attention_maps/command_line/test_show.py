"""The command line: tables in the terminal, lists of recordings, and user errors."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attention_maps.__main__ import guarded
from attention_maps.command_line.show import bar
from attention_maps.draw.labels import fitted, visible, width
from attention_maps.files import store
from attention_maps.record.recording import Recording, Score, tokens
from tests.conftest import ROOT, environment

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(lesson: Recording, tmp_path: Path) -> str:
    """Return the folder of a run with one recording."""
    store.save(lesson, tmp_path / "x")
    return str(tmp_path / "x")


def test_a_question_is_answered_in_percent(run: str, capsys: Capture) -> None:
    """Guards against a wrong weight between two tokens."""
    assert guarded(["show", run, "kind=decoder", "layer=0", "head=0", "query=win", "key=I"]) == 0
    out = capsys.readouterr().out
    assert "decoder self-attention · layer 0 (of 0–1) · head 0 (of 0–1)" in out
    assert "x · step 1,000 · sample 0 (probe 1) · 0.75 nats per token" in out
    assert out.endswith("'win' attends to 'I': 50 %\n")


def test_a_pair_is_ranked_over_all_layers_and_heads(run: str, capsys: Capture) -> None:
    """Guards against a separate block for each head, in which the head that links two tokens must be searched."""
    assert guarded(["show", run, "kind=decoder", "layer=all", "query=win", "key=I"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "decoder self-attention · 4 heads, the largest weight first"
    assert "sample 0 (probe 1)" in lines[1]
    assert lines[3] == "'win' attends to 'I'"
    heads = [" ".join(line.split()[:5]) for line in lines[4:]]
    assert sorted(heads) == [f"layer {layer} · head {head}" for layer in range(2) for head in range(2)]
    weights = [int(line.split()[-2]) for line in lines[4:]]
    assert weights == sorted(weights, reverse=True)
    assert dict(zip(heads, weights, strict=True))["layer 0 · head 0"] == 50
    assert guarded(["show", run, "kind=decoder", "layer=1", "head=all", "query=win", "key=I"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert guarded(["show", run, "kind=decoder", "layer=all"]) == 0
    assert capsys.readouterr().out.count("mean of 2 heads") == 2


def test_the_table_names_every_row_and_its_strongest_keys(run: str, capsys: Capture) -> None:
    """Guards against rows labelled by predicted tokens, and percentages next to the wrong key."""
    assert guarded(["show", run, "layer=0", "head=0", "top=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["predicts", "attends", "to"]
    for line, row, name, first, second in zip(
        lines[4:],
        "0123",
        ["I", "d", "win", "</s>"],
        ["いいえ 90", "勝つ 60", "いいえ 33", "勝つ 80"],
        ["勝つ 5", "いいえ 30", "勝つ 33", "いいえ 15"],
        strict=True,
    ):
        words = [word for word in line.split() if not set(word) <= set("█▏▎▍▌▋▊▉%")]
        assert words == [row, name, *first.split(), *second.split()]


def test_japanese_columns_stand_under_each_other(run: str, capsys: Capture) -> None:
    """Guards against misaligned columns because of full-width characters."""
    assert guarded(["show", run, "layer=0", "head=0", "kind=cross", "top=3"]) == 0
    rows = capsys.readouterr().out.splitlines()[4:]
    ends = [[width(line[: match.end()]) for match in re.finditer("%", line)] for line in rows]
    assert len(ends) == 4
    assert all(end == ends[0] for end in ends)


def test_special_tokens_can_be_left_out_of_what_is_attended_to(
    lesson: Recording, tmp_path: Path, capsys: Capture
) -> None:
    """Guards against a table that shows only the first token, the usual sink."""
    store.save(lesson, tmp_path)
    question = ["show", str(tmp_path), "kind=decoder", "layer=0", "head=0", "query=d"]
    assert guarded(question) == guarded([*question, "special=false"]) == 0
    with_special, without = capsys.readouterr().out.split("decoder self-attention")[1:]
    assert "nah" in with_special
    assert "nah" not in without
    assert "80 %" not in without


def test_show_key_lists_its_queries(run: str, capsys: Capture) -> None:
    """Guards against treating `key=` alone as a query."""
    assert guarded(["show", run, "kind=decoder", "layer=0", "head=0", "key=I", "top=2"]) == 0
    last = capsys.readouterr().out.splitlines()[3:]
    assert last[0] == "'I' is attended to by"
    assert [line.split()[1] for line in last[1:]] == ["I", "win"]


def test_all_problems_are_reported_at_once(run: str, capsys: Capture) -> None:
    """Guards against reporting only the first of several errors, and tracebacks."""
    assert guarded(["show", run + "y", "laier=1", "head=x", "top=0", "rows=both", "sample", "step=1", "step=2"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        (
            "error: laier: unknown setting (did you mean layer?); there are step, sample, kind, layer, head, rows,"
            " query, key, top, special"
        ),
        "error: head=x: must be a whole number or mean or all",
        "error: rows=both: must be reads or predicts",
        "error: sample: not understood; settings are written key=value without dashes, --help lists them",
        "error: step= is given twice",
        "error: top=0: must be at least 1",
        f"error: {run}y: no such run",
    ]
    assert guarded(["show", run, "query=lose", "key=負ける"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: query=lose: 'lose' is not among the tokens: I d win </s>",
        "error: key=負ける: '負ける' is not among the tokens: いいえ 勝つ さ",
    ]
    assert guarded(["show", run, "query=3:2", "key=0:9"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: query=3:2: the range 3:2 is empty",
        "error: key=0:9: the positions 0 to 8 are not within the 3 tokens",
    ]
    for long in ("sample", "step", "layer", "head", "query"):
        assert guarded(["show", run, f"{long}={'9' * 5000}"]) == 2
        assert capsys.readouterr().err.count("error: ") == 1


@pytest.mark.parametrize(
    "arguments", [["draw", "x"], ["show"], ["show", "--kind", "cross"], ["list", "."], ["list", "~nosuchuser/x"]]
)
def test_wrong_commands_end_with_code_2(
    arguments: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a wrong exit code."""
    monkeypatch.chdir(tmp_path)
    assert guarded(arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_unreadable_runs_are_listed_with_the_reason(run: str, lesson: Recording, capsys: Capture) -> None:
    """Guards against valid runs hidden by measures of another shape, a damaged file or an unreadable folder."""
    folder = Path(run).parent
    bad = {
        "foreign": {"entropy": {"cross": [[1.0]]}},
        "kind": {"spread": {"self": []}},
        "ragged": {"spread": {"cross": [[1.0, 2.0], [3.0]]}},
    }
    for name, measures in bad.items():
        store.save(replace(lesson, measures=measures), folder / name)
    store.path(folder / "empty", 7).parent.mkdir(parents=True)
    store.path(folder / "empty", 7).touch()
    store.save(replace(lesson, measures={"entropy": {"cross": [[1.0, 2.0], [3.0, 4.0]]}}), folder / "unlabelled")
    store.save(lesson, folder / "private")
    (folder / "private" / "attention").chmod(0)
    try:
        assert guarded(["list", str(folder)]) == 0
    finally:
        (folder / "private" / "attention").chmod(0o755)
    listed = dict(block.split("\n", 1) for block in capsys.readouterr().out.strip().split("\n\n"))
    assert list(listed) == [
        str(folder / name) for name in ("empty", "foreign", "kind", "private", "ragged", "unlabelled", "x")
    ]
    for name in ("empty", *bad):
        assert "unreadable" in listed[str(folder / name)]
        assert guarded(["heads", str(folder / name)]) == 2
    for name in ("unlabelled", "x"):
        assert "2 layers × 2 heads" in listed[str(folder / name)]
        assert guarded(["heads", str(folder / name)]) == 0


def test_missing_recording_is_named(run: str, capsys: Capture) -> None:
    """Guards against a message without the name of the missing file."""
    (file,) = store.steps(run).values()
    file.unlink()
    file.symlink_to("moved away")
    for command in ("show", "heads", "export"):
        assert guarded([command, run, *(["to=" + run + ".svg"] if command == "export" else [])]) == 2
        assert capsys.readouterr().err == f"error: {file}: no such recording\n"
    assert guarded(["list", run]) == 0
    assert f"unreadable  {file}: no such recording" in capsys.readouterr().out


def test_listing_reads_no_maps(run: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against reading gigabytes to print some names."""
    monkeypatch.setattr("attention_maps.files.header.LARGEST_TENSOR", 0)
    assert guarded(["list", run]) == 0
    assert "0  probe 1" in capsys.readouterr().out
    assert guarded(["show", run]) == 2


def test_a_recording_without_examples_has_measures_to_tell(lesson: Recording, tmp_path: Path, capsys: Capture) -> None:
    """Guards against failing on runs with attention.examples=0, which have measures and scores but no maps."""
    measures = {"entropy": {"cross": [[0.5, 1.5]]}, "alignment_error": {"cross": [[25.5, 50.0]]}}
    scores = (Score("alignment_error", "nearest", 70.0),)
    store.save(replace(lesson, samples=(), measures=measures, scores=scores), tmp_path)
    assert guarded(["list", str(tmp_path)]) == guarded(["heads", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert re.search("samples +none, measures only\n +cross +1 layers × 2 heads\n", out)
    assert re.search("layer 0 +0 +0.50 +25.5\n", out)
    assert "70.0  nearest  (baseline)" in out
    assert guarded(["show", str(tmp_path)]) == 2
    assert "step 1,000: this recording contains no examples" in capsys.readouterr().err


def test_runs_are_listed_with_steps_samples_and_maps(run: str, lesson: Recording, capsys: Capture) -> None:
    """Guards against missing lines in the overview of a run."""
    for step in (0, 20_000):
        store.save(Recording(step, lesson.samples, labels={"cross": [["", ""], ["alignment", ""]]}), run)
    store.save_generated(lesson, run)
    assert guarded(["list", str(Path(run).parent)]) == 0
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["steps", "0, 1000, 20000"],
        ["generated", "generated_00001"],
        ["samples", "0  probe 1: いいえ勝つさ → Idwin"],
        ["encoder", "2 layers × 2 heads"],
        ["decoder", "2 layers × 2 heads"],
        ["cross", "2 layers × 2 heads; alignment: 1.0"],
    ]


def test_many_runs_are_listed_in_one_line_each(run: str, lesson: Recording, capsys: Capture) -> None:
    """Guards against a thousand lines for a hundred runs, and a search that opens a recording of every run."""
    folder = Path(run).parent
    for number in range(12):
        for step in range(5):
            store.path(folder / f"日本-{number}", step).parent.mkdir(parents=True, exist_ok=True)
            store.path(folder / f"日本-{number}", step).touch()  # empty: not readable
    store.save_generated(lesson, run)
    assert guarded(["list", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 13 + 2
    ends = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines[:13]}
    assert ends[run] == "steps 1000, 1 generated"
    assert ends[str(folder / "日本-0")] == "steps 0, …, 4  (5)"
    assert len({width(line[: line.index("steps")]) for line in lines[:13]}) == 1
    assert lines[-1].startswith("13 runs; for samples and maps of one: python -m attention_maps list ")


def test_heads_are_described_by_their_measures(run: str, lesson: Recording, capsys: Capture) -> None:
    """Guards against swapped columns, and NaN printed for missing numbers."""
    scores = (
        Score("alignment_error", "nearest", 70.0),
        Score("alignment_error", "layer 1 head 0", 25.5, "cross", 1, 0),
    )
    measures = {
        "entropy": {"cross": [[0.5, 1.25], [2.0, 0.0]]},
        "alignment_error": {"cross": [[25.5, float("nan")], [50.0, 99.9]]},
    }
    labels = {"cross": [["alignment", ""], ["", "first token"]]}
    store.save(Recording(1000, lesson.samples, measures, labels, scores), run)
    assert guarded(["heads", run]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:7]] == [
        ["cross", "head", "entropy", "AER", "label"],
        ["layer", "0", "0", "0.50", "25.5", "alignment"],
        ["layer", "0", "1", "1.25"],
        ["layer", "1", "0", "2.00", "50.0"],
        ["layer", "1", "1", "0.00", "99.9", "first", "token"],
    ]
    assert [line.split() for line in lines[-2:]] == [
        ["25.5", "layer", "1", "head", "0"],
        ["70.0", "nearest", "(baseline)"],
    ]


def test_control_characters_are_escaped_on_the_terminal(lesson: Recording, tmp_path: Path, capsys: Capture) -> None:
    """Guards against terminal escape sequences in foreign files."""
    sample = lesson.samples[0]
    wild = tokens([1, 2, 3], ["\033]0;x\007", "a\nb", "\u202ec"], frozenset())
    sample = type(sample)(**{**vars(sample), "source": wild, "name": "probe \033[2J"})
    store.save(Recording(1, (sample,)), tmp_path)
    for command in ("show", "list", "heads"):
        assert guarded([command, str(tmp_path)]) == 0
    assert guarded(["show", str(tmp_path), "key=win"]) == 2  # lists the tokens
    out, err = capsys.readouterr()
    assert "[1B]" in err
    assert "[1B]]0;x[7]" in out
    assert "a↵b" in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", out + err)


def test_widths_are_those_of_a_terminal() -> None:
    """Guards against measuring combining marks and full-width characters with len()."""
    assert [width(text) for text in ("win", "勝つ", "が", "ｶﾞ", "é", "▁勝")] == [3, 4, 2, 2, 1, 3]
    assert fitted("勝つ", 6) == "勝つ  "
    assert fitted("りんごを食べる", 6) == "りん… "
    assert visible(" a\u3000\ud800") == "␣a␣[D800]"


def test_a_bar_is_as_long_as_its_share() -> None:
    """Guards against rounding errors at both ends, and a diverged model."""
    assert [bar(share).rstrip() for share in (0, 0.0125, 0.5, 0.95, 1, 1.01)] == [
        "",
        "▏",
        "█████",
        "█████████▌",
        "█" * 10,
        "█" * 10,
    ]
    assert bar(float("nan")) == " " * 10
    assert {len(bar(share)) for share in np.linspace(0, 1, 99)} == {10}


def test_commands_import_neither_torch_nor_matplotlib(run: str) -> None:
    """Guards against importing torch, which takes more than a second; a picture needs matplotlib."""
    code = (
        f"import sys; from attention_maps.__main__ import guarded; codes = [guarded(['show', {run!r}]),"
        f" guarded(['list', {run!r}]), guarded(['heads', {run!r}]), guarded(['export', {run!r}, 'to=' + {run!r} +"
        " '.csv'])]; assert codes == [0, 0, 0, 0]; print(sorted({'torch', 'matplotlib', 'tensorboard', 'hydra'} &"
        " set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_closed_standard_output_ends_quietly(run: str) -> None:
    """Guards against a traceback of `show | head`."""
    command = [sys.executable, "-m", "attention_maps", "show", run, "head=all", "sample=all"]
    process = subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("command", ["list", "heads", "show", "export"])
def test_help_lists_every_setting_with_its_meaning(command: str, capsys: Capture) -> None:
    """Guards against undocumented settings, and help that needs a run."""
    assert guarded([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"python -m attention_maps {command} " in out
    for line, following in zip(out.splitlines(), [*out.splitlines()[1:], ""], strict=True):
        if re.match(r"  \w+=", line):
            assert following.startswith("      ")
