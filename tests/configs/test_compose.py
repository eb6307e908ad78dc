"""From arguments to a checked config: all problems at once, in words, exit code 2, no file changed."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from configs.compose import GROUPS, OTHER_NAMES, all_keys, compose_config, normalise
from configs.settings import field_documentation
from configs.sweep_points import sweep_points
from generation.command_line import parse_command
from generation.config import GenerateConfig
from tests.conftest import ROOT
from training.command_line import split_flags
from training.config import TrainConfig, value_at
from training.new_or_resumed_run import compose_run

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def found_in(*settings: str) -> list[str]:
    return compose_run([normalise(setting) for setting in settings]).problems


def test_the_defaults_are_in_order() -> None:
    """Guards against a default that fails its own checks."""
    assert found_in() == []
    assert found_in("task=translate") == []


def test_names_of_other_programs_lead_to_settings_that_exist() -> None:
    """Guards against advice to use a setting that was renamed."""
    keys = {*all_keys(TrainConfig), *all_keys(GenerateConfig)}
    assert set(OTHER_NAMES.values()) <= keys
    assert all(name not in all_keys(TrainConfig) for name in OTHER_NAMES)


def test_all_problems_are_reported_together() -> None:
    """Guards against reporting one mistake at a time."""
    result = "\n".join(
        found_in(
            "model.width=30",
            "optim.lrr=1",
            "trainer.steps=many",
            "schedule.kind=cosin",
            "data=texts",
            "optim.beta1=1.5",
        )
    )
    assert "optim.lrr: unknown setting (did you mean optim.lr?)" in result
    assert "data=texts: no such choice (did you mean text?)" in result
    assert all(
        part in result for part in ("model.width", "trainer.steps=many", "schedule.kind=cosin", "optim.beta1=1.5")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("optim.rate=1", "optim.rate: unknown setting"),
        ("lr=1", "did you mean optim.lr"),
        ("run=runs/mine", "did you mean name?"),
        ("n_layer=6", "did you mean model.layers?"),
        ("+optim.lr=1", "without the plus"),
        ("~optim.lr", "cannot be removed"),
        ("optim.lr", "key=value"),
        ("optim.lr=fast", "optim.lr=fast: must be a number"),
        ("optim.lr=null", "optim.lr=null: must be a number"),
        ("optim.lr=nan", "out of range"),
        ("trainer.steps=1e3", "trainer.steps=1e3: must be a whole number or null"),
        ("trainer.steps=true", "trainer.steps=true: must be a whole number or null"),
        ("data.header=maybe", "data.header=maybe: must be true or false"),
        ("attention.probes=Hello", 'attention.probes=Hello: must be a list: attention.probes=\'["first","second"]\''),
        ("optim.kind=[adamw]", "optim.kind=[adamw]: must be a text"),
        ("optim.lr=a=b", "not understood"),
        ("OPTIM.LR=1", "did you mean optim.lr"),
        ("~optim", "~optim: settings cannot be removed"),
        ("optim=null", "optim=null: no such choice"),
        ("", "'': not understood"),
        ("=1", "=1: not understood"),
        ("hydra.run.dir=x", "hydra.run.dir: unknown setting"),
        ("data@model=text", "Could not override"),
        ("name=-x", "plain folder name"),
        ("name=runs/[1]", "plain folder name"),
        ("name=a\x1bb", "plain folder name"),
        (f"name={'水' * 90}", "plain folder name"),
        ("+experiment=tatoba", "did you mean tatoeba"),
        ("optim.lr=0", "greater than 0"),
        ("trainer.patience=0", "trainer.patience=0: must be greater than 0; null switches it off"),
        ("name=a/b", "plain folder name"),
        ("resume=", "is empty"),
        ("optim.lr=inf", "out of range"),
        ("seed=99999999999999999999", "seed"),
        ("trainer.steps=???", "trainer.steps"),
        ("optim.lr=${nothing}", "optim.lr"),
        ("resume=runs/none", "no such run folder"),
        ("init_from=runs/none", "no such run folder"),
    ],
)
def test_one_wrong_argument_gets_one_clear_message(argument: str, words: str) -> None:
    """Guards against Hydra's grammar errors shown to the user."""
    result = found_in(argument)
    assert len(result) == 1
    assert words in result[0]


@pytest.mark.parametrize(
    "path",
    ["a=b,c.txt", "日本語 の 本.txt", "it's (1).txt", "tab\there.txt", "back\\slash.txt", "{x}[y].txt", "${home}.txt"],
)
def test_any_name_of_a_file_or_column_arrives_as_it_was_typed(path: str) -> None:
    """Guards against Hydra's grammar failing on '=', ',' and Japanese in a file name."""
    keys = ("data.path", "data.cache", "data.text_column", "data.subset", "runs")
    config, result = compose_config("train", TrainConfig, [*(f"{key}={path}" for key in keys), "data=text"])
    assert result == []
    assert [OmegaConf.select(config, key) for key in keys] == [path] * len(keys)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("trainer.patience=null", None),
        ("data.path=null", None),
        ("data.source_column=1", "1"),
        ("data.cache='quoted, twice'", "quoted, twice"),
        ('attention.probes=["a b, c","水"]', ["a b, c", "水"]),
        ("attention.probes=[]", []),
        ("optim.lr=${optim.muon_lr}", 0.02),
        ("+experiment=demo_gpt", "demo_gpt"),
        ("experiment=demo_gpt", "demo_gpt"),
        ("name=日本-1.5_x", "日本-1.5_x"),
    ],
)
def test_a_value_arrives_as_it_was_meant(setting: str, value: object) -> None:
    """Guards against null, quotes and lists read as text, and text read as a number."""
    result = compose_run([normalise(setting)])
    assert result.problems == []
    key = setting.lstrip("+").partition("=")[0]
    assert value_at(result.config, key) == value


def test_every_setting_is_documented() -> None:
    """Guards against a field without a docstring, which --help would show empty."""
    from dataclasses import is_dataclass
    from typing import get_type_hints

    def undocumented(schema: type) -> list[str]:
        missing = []
        for name, kind in get_type_hints(schema).items():
            if is_dataclass(kind) and isinstance(kind, type):
                missing += undocumented(kind)
            elif not field_documentation(schema).get(name):
                missing.append(f"{schema.__name__}.{name}")
        return missing

    assert undocumented(TrainConfig) == []
    assert undocumented(GenerateConfig) == []


def test_the_fixed_words_of_the_command_line_exist() -> None:
    """Guards against renaming settings that users type and scripts parse."""
    keys = set(all_keys(TrainConfig))
    fixed = """task name resume init_from seed data.path tokenizer.kind tokenizer.vocab_size model.layers model.heads
        model.width model.dropout optim.lr trainer.steps trainer.minutes"""
    assert set(fixed.split()) <= keys
    assert {"run", "prompt"} <= set(all_keys(GenerateConfig))


NASTY = [
    "Hello, world! a=b (c)",
    "a,b,c",
    "key=value",
    "prompt=prompt=x",
    "'single' \"double\"",
    "${oc.env:HOME} $HOME `ls`",
    "[1, 2, {a: b}]",
    "こんにちは、世界！",
    "line one\nline two\n",
    "  spaces  kept  ",
    "",
    "null",
    "~tilde",
    "-m",
    "--help me",
    "back\\slash \\n",
    "100%",
    "# not a comment",
    "emoji 🎉 𠮷",
    "\ttab",
]


@pytest.mark.parametrize("prompt", NASTY)
def test_any_prompt_arrives_verbatim(prompt: str) -> None:
    """Guards the prompt against Hydra's override grammar and OmegaConf's interpolation."""
    config, given = parse_command([f"prompt={prompt}", f"stop={prompt or 'x'}", "run=runs/a=b,c"])
    assert config == GenerateConfig(run="runs/a=b,c", prompt=prompt, stop=[prompt or "x"])
    assert given == {"prompt", "stop", "run"}


def test_bad_settings_leave_with_2_one_line_each_and_no_files(in_process: Run, tmp_path: Path) -> None:
    """Guards against a traceback, exit code 1, or a run folder left by a command that never ran."""
    done = in_process("train.py", "model.width=30", "optim.lrr=1", "data=texts")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("error: ") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_help_lists_every_setting_and_every_experiment(in_process: Run) -> None:
    """Guards against an outdated help page."""
    done = in_process("train.py", "--help")
    assert done.returncode == 0
    groups = {"data", "tokenizer", "model", "optim", "schedule", "trainer", "attention"}
    assert all(f"  {key}=" in done.stdout for key in all_keys(TrainConfig) if key not in groups)
    assert all(re.search(rf"^  {name} +\w", done.stdout, re.MULTILINE) for name in GROUPS["experiment"])
    choices = [f"{group}={choice}" for group in GROUPS for choice in GROUPS[group] if group != "experiment"]
    assert [choice for choice in choices if not re.search(rf"^  {choice} +\w", done.stdout, re.MULTILINE)] == []
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_printing_the_config_trains_nothing(in_process: Run, tmp_path: Path) -> None:
    """Guards against Hydra's own flags read as settings."""
    done = in_process("train.py", "--cfg", "job", "optim.lr=0.5")
    assert done.returncode == 0, done.stderr
    assert "lr: 0.5" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_stops_early_gets_no_traceback(tmp_path: Path) -> None:
    """Guards against `train.py --help | head` ending in a BrokenPipeError."""
    command = f"{sys.executable} {ROOT / 'train.py'} --help | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Train a small transformer")
    assert done.stderr == ""


def test_every_point_of_a_sweep_is_checked_groups_included() -> None:
    """Guards against rejecting a sweep over optimisers, and a sweep whose last run fails after hours."""
    result: list[str] = []
    points = sweep_points(
        [normalise(s) for s in ("optim=adamw,muon", "optim.lr=1e-3,3e-3", "experiment=demo_gpt,demo_enja")], result
    )
    assert result == []
    assert len(points) == 8
    assert points[0].settings == ["optim=adamw", "optim.lr=0.001", "+experiment=demo_gpt"]
    assert all(compose_run(point.settings).problems == [] for point in points)


def test_flags_are_passed_on_and_unknown_ones_are_refused() -> None:
    """Guards against ignoring `--lr 3`, and against reading the value of `--cfg` as a setting."""
    result: list[str] = []
    assert split_flags(["-m", "--cfg", "job", "seed=1"], result) == (["-m", "--cfg", "job"], ["seed=1"])
    assert result == []
    split_flags(["--lr", "3", "--package", "model"], result)
    assert "--lr: no such flag" in result[0]
    assert "--cfg job" in result[1]


@pytest.mark.parametrize(
    ("flags", "words"), [(["--cfg"], "job or hydra"), (["--info", "x"], "all or"), (["-p"], "a pack")]
)
def test_a_flag_without_its_value_is_one_line(flags: list[str], words: str) -> None:
    """Guards against the usage of Hydra's own command, whose settings and flags differ."""
    result: list[str] = []
    split_flags(["--cfg", "job", *flags], result)
    assert len(result) == 1
    assert result[0].startswith(f"{flags[0]} ")
    assert words in result[0]


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 3000 + "]" * 3000, "(" * 500, "{a:" * 3000])
def test_a_value_beyond_the_limits_of_the_parser_is_one_problem(value: str) -> None:
    """Guards against a traceback for a number of too many digits, and for brackets nested too deeply."""
    for key in ("seed", "task", "attention.probes"):
        result = compose_run([f"{key}={value}"]).problems
        assert len(result) == 1, result
        assert result[0].startswith(f"{key}=")
