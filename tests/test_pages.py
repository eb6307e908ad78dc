"""Commands and settings on the documentation pages are valid."""

import re
import shlex
from pathlib import Path

import pytest

from configs.compose import GROUPS, all_keys, normalise
from configs.sweep_points import sweep_points
from generation.command_line import parse_command
from interop.settings import parse_settings as parse_export
from tests.conftest import ROOT
from training.command_line import hydra_settings, is_for_hydra
from training.config import TrainConfig
from training.evaluation.reports.settings import parse_settings
from training.new_or_resumed_run import compose_run

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

COMMAND = re.compile(r"python (train|generate|evaluate|export)\.py ([^#`\n]*)")
"""A command in a code block or within a line, up to a comment."""

FILES = {"tokenizer.json", "tokenizer.model", "model.safetensors"}
"""Names of files that look like settings."""

SETTING = re.compile(r"`\+?([a-z_]+(?:\.[a-z0-9_]+)?)(?:=([^`\s]*))?[^`]*`")
"""A setting within a line, e.g. `optim.lr` or `model.context=16`."""


def commands(program: str) -> list[tuple[str, list[str]]]:
    """Return every command of a program on the pages as (page, arguments), except those with the reader's own runs and
    models;
    `…` is replaced by the data."""
    result = []
    for page in PAGES:
        for name, rest in COMMAND.findall(page.read_text(encoding="utf-8")):
            arguments = shlex.split(rest.partition(" < ")[0])
            path = ["data.path=…"] if "+experiment" in rest or "data=" in rest else []
            given = [each for each in arguments if each != "…" and "runs/NAME" not in each and "init_from=" not in each]
            given += path if "…" in arguments else []
            result += [(page.name, given)] if name == program else []
    return result


@pytest.mark.parametrize(("page", "arguments"), commands("train"))
def test_every_training_command_of_a_page_is_valid(page: str, arguments: list[str]) -> None:
    """Guards against a documented command that is rejected."""
    settings = [normalise(argument) for argument in arguments if not argument.startswith("-")]
    result: list[str] = []
    if swept_by_plugins := hydra_settings(arguments):
        # What only Hydra's sweepers understand is checked when they run (tests/training/test_hydra_sweep.py).
        settings = [each for each in swept_by_plugins if not is_for_hydra(each) and "interval(" not in each]
    for point in sweep_points(settings, result):
        result += compose_run(point.settings).problems
    assert result == []


@pytest.mark.parametrize(("page", "arguments"), commands("generate"))
def test_every_generating_command_of_a_page_is_valid(page: str, arguments: list[str]) -> None:
    """Guards against a documented setting of generate.py that has been renamed."""
    parse_command(["run=runs/NAME", *(argument for argument in arguments if not argument.startswith("run="))])


@pytest.mark.parametrize(("page", "arguments"), commands("evaluate"))
def test_every_evaluating_command_of_a_page_is_valid(page: str, arguments: list[str]) -> None:
    """Guards against a documented setting of evaluate.py that has been renamed."""
    parse_settings(["run=runs/NAME", *(argument for argument in arguments if not argument.startswith("run="))])


@pytest.mark.parametrize(("page", "arguments"), commands("export"))
def test_every_exporting_command_of_a_page_is_valid(page: str, arguments: list[str]) -> None:
    """Guards against a documented setting of export.py that has been renamed."""
    parse_export(["run=runs/NAME", *(argument for argument in arguments if not argument.startswith("run="))])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_a_page_names_exists(page: Path) -> None:
    """Guards against a documented setting that no longer exists, or an invalid value."""
    keys = all_keys(TrainConfig)
    named = SETTING.findall(page.read_text(encoding="utf-8"))
    modules = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in ROOT.glob("*/*")}
    dotted = {key for key, _ in named if "." in key and key.partition(".")[0] in GROUPS}
    wrong = sorted(dotted - modules - set(keys) - FILES)
    wrong += [
        f"{key}={value}"
        for key, value in named
        if key in GROUPS and value and not set(value.split("|")) <= {*GROUPS[key], "NAME"}
    ]
    assert wrong == []
