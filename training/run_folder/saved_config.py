"""The `config.yaml` of a run: plain values, nothing in it is looked up or executed."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.errors import UserError
from configs.literals import literal
from configs.whole_file import write_whole
from training.config import TrainConfig

FORMAT = 2
"""Version of what weights mean, in every config.yaml. Since 2 rotary positions turn the entries i and i + D/2 of a head
as a pair; before, 2i and 2i + 1 (a file without a version). Other weights fit the model all the same, and give
nonsense."""


def to_yaml(config: TrainConfig) -> str:
    """The complete config; a text is written as it is, `${` included, and means just that when it is read."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)


def to_omegaconf(config: TrainConfig) -> DictConfig:
    """The config for OmegaConf, which checks types and takes new settings; its texts mean themselves."""
    return OmegaConf.merge(OmegaConf.structured(TrainConfig), literal(asdict(config)))  # type: ignore[return-value]


def save_config(config: TrainConfig, run: Path) -> None:
    """Write the complete config, replacing an older one in a single step."""
    write_whole(run / "config.yaml", f"format: {FORMAT}\n{to_yaml(config)}".encode())


def load_config(run: Path) -> TrainConfig:
    """The config a run was trained with; raises UserError when `run` is no run folder, or its weights mean something
    else today."""
    path = run / "config.yaml"
    if not run.is_dir():
        raise UserError(f"{run}: no such run folder{similar_run(run)}")
    if not path.exists():
        raise UserError(f"{run}: no config.yaml in it, so it is not a run folder{similar_run(run)}")
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(loaded, dict) or not loaded:
            raise UserError(f"{path}: is empty; copy the run again")
        version = loaded.pop("format", 1)
        if isinstance(loaded.get("data"), dict):
            loaded["data"].setdefault("valid_tokens", None)  # before there was this limit: other losses do not compare
        loaded = OmegaConf.create(literal(loaded))
        if missing := sorted(OmegaConf.missing_keys(loaded)):
            raise UserError(f"{path}: {missing[0]}=??? stands for a missing value; write one, or leave the line out")
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TrainConfig), loaded))
    except (OmegaConfBaseException, yaml.YAMLError, OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a config: {str(error).splitlines()[0]}") from error
    assert isinstance(config, TrainConfig)
    if not isinstance(version, int) or version > FORMAT:
        raise UserError(
            f"{run}: was written by a newer version of this program (format {version}, here {FORMAT}): use that one"
        )
    if config.model.position == "rotary" and version != FORMAT:
        raise UserError(
            f"{run}: was trained when rotary positions paired other entries of a head (format {version}, now {FORMAT}),"
            " so that its weights would give nonsense: train it again, or use it with the version of the program that"
            " trained it"
        )
    return config


def run_and_checkpoint(path: Path, otherwise: str = "last") -> tuple[Path, str]:
    """A run folder, or one of its checkpoints (`runs/x/checkpoints/best`) -> the run and the checkpoint's name."""
    if path.parent.name == "checkpoints" and not (path / "config.yaml").exists():
        return path.parent.parent, path.name
    return path, otherwise


def similar_run(run: Path) -> str:
    """` (did you mean …?)` with the run that is around when `run` is not one: in `runs`, beside it or above it; or
    nothing."""
    around = [*Path("runs").glob("*/config.yaml"), *run.parent.glob("*/config.yaml")]
    above = [parent for parent in run.parents if (parent / "config.yaml").is_file()]
    by_name = {path.parent.name: path.parent for path in reversed(around)}
    near = [by_name[name] for name in difflib.get_close_matches(run.name, by_name, n=1, cutoff=0.75)]
    return f" (did you mean {(above or near)[0]}?)" if above or near else ""
