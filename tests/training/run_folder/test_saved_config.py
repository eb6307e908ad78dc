"""config.yaml is loaded as it was saved, without interpolation."""

import sys
from pathlib import Path

import pytest
import yaml

from configs.errors import UserError
from tests.conftest import TINY, generate_command, train_command
from training.config import TrainConfig
from training.new_or_resumed_run import to_dataclass
from training.run_folder.saved_config import load_config, save_config, to_omegaconf

ODD = [
    "${x}",
    "/tmp/${oc.env:CHUMOKU_SECRET}/b.txt",
    "a${b",
    "\\${x}",
    "a\\\\${x}\\",
    "$HOME",
    "$",
    "${",
    "}",
    "1e3",
    "null",
    "yes",
    "2026-01-01",
    "12:30",
    "",
    " ",
    "# no comment",
    "'\"",
    "りんご: {a}",
    "two\nlines",
    "\udcff",
    "???.txt",
]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHUMOKU_SECRET", "hunter2")


@pytest.mark.slow
@pytest.mark.parametrize("text", ODD)
def test_any_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    """Guards against a finished run that cannot be used or resumed because a path contains `${`, and a name read as
    a number."""
    config = TrainConfig(name=text, resume=text)
    config.data.path = text
    config.attention.probes = [text]
    save_config(config, tmp_path)
    assert load_config(tmp_path) == config
    assert to_dataclass(to_omegaconf(config), []) == config


def test_the_config_of_a_foreign_run_is_not_interpolated(tmp_path: Path) -> None:
    """Guards against `${oc.env:SECRET}` in data.path of a downloaded run, which would send the secret to a URL."""
    url = "https://example.org/${oc.env:CHUMOKU_SECRET}"
    (tmp_path / "config.yaml").write_text(
        f"format: 2\nname: ${{data.path}}\ndata:\n  path: {url}\nattention:\n  probes:"
        " ['${oc.env:CHUMOKU_SECRET}']\n",
        encoding="utf-8",
    )
    config = load_config(tmp_path)
    assert (config.name, config.data.path) == ("${data.path}", url)
    assert config.attention.probes == ["${oc.env:CHUMOKU_SECRET}"]
    (tmp_path / "config.yaml").write_text("format: 2\nmodel:\n  width: ${oc.env:CHUMOKU_SECRET}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.yaml: cannot be read as a config") as refused:
        load_config(tmp_path)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ["model:\n  width: ???\n", "model: [", "- 1\n", "modl: {}\n", "seed: one\n", "\x00"])
def test_what_is_no_config_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    """Guards against a traceback of the YAML parser or OmegaConf for a damaged or foreign file."""
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.yaml") as refused:
        load_config(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_path_with_interpolation_syntax_is_resumed(
    tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards the same through both command lines: new run, resume, a path changed on resume, generate.py."""
    monkeypatch.chdir(tmp_path)
    for name in ("${oc.env:CHUMOKU_SECRET}", "a\\${x}", "b${c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "book.txt").write_bytes(book.read_bytes())

    def run(command: object, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["program", *arguments])
        assert callable(command)
        command()
        return capsys.readouterr().out

    text = [*TINY, "data=text", "tokenizer=char", "trainer.test=false", "name=run"]
    run(train_command, *text, "data.path=${oc.env:CHUMOKU_SECRET}/book.txt")
    assert "step 7/7" in run(train_command, "resume=runs/run", "trainer.steps=7")
    for steps, path in ((8, "a\\${x}/book.txt"), (9, "b${c/book.txt")):
        assert f"data.path={path} (was" in run(
            train_command, "resume=runs/run", f"trainer.steps={steps}", f"data.path={path}"
        )
        assert load_config(Path("runs/run")).data.path == path
    assert run(generate_command, "run=runs/run", "prompt=The", "max_tokens=3").startswith("The")


def test_three_question_marks_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against text that OmegaConf reads as a missing value, with which no later start could load the config."""
    monkeypatch.chdir(tmp_path)
    for key, given in (("data.path", "data.path=???"), ("attention.probes[0]", 'attention.probes=["???"]')):
        monkeypatch.setattr(sys, "argv", ["train.py", "data=text", given])
        with pytest.raises(SystemExit):
            train_command()
        assert capsys.readouterr().err.startswith(f"error: {key}=???: three question marks")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_transformers_is_told_from_a_run(tmp_path: Path) -> None:
    """Guards against a reader who is sent to look for a config.yaml."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"is a model of transformers, not a run; train\.py init_from="):
        load_config(tmp_path)


@pytest.mark.parametrize("version", ["", "format: 1\n", "format: 3\n", "format: newest\n"])
def test_another_format_version_is_refused(tmp_path: Path, version: str) -> None:
    """Guards against weights whose numbers mean something else here: they load, and silently generate nonsense."""
    (tmp_path / "config.yaml").write_text(f"{version}task: gpt\n", encoding="utf-8")
    with pytest.raises(UserError, match="was written by another version of this program"):
        load_config(tmp_path)


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


def removed(tmp_path: Path, key: str, value: object) -> Path:
    """Return a run whose config has a setting that no longer exists."""
    save_config(TrainConfig(), tmp_path)
    path = tmp_path / "config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    group, name = key.split(".")
    config[group][name] = value
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("key", "value"),
    [("trainer.r_drop", 0.5), ("trainer.skip_limit", 3), ("model.logit_cap", None), ("model.norm_gain", True)],
)
def test_a_removed_setting_that_changes_nothing_is_ignored(tmp_path: Path, key: str, value: object) -> None:
    """Guards against runs that cannot be read any more because of a setting at its default."""
    assert load_config(removed(tmp_path, key, value)) == TrainConfig()


@pytest.mark.parametrize(("key", "value"), [("model.logit_cap", 15.0), ("model.rotary_fraction", 0.25)])
def test_a_removed_setting_that_changes_the_model_is_refused(tmp_path: Path, key: str, value: object) -> None:
    """Guards against weights that load into another model and silently generate nonsense."""
    with pytest.raises(UserError, match=f"{key}={value}: is no longer supported; use the version of this program"):
        load_config(removed(tmp_path, key, value))
