"""The `config.yaml` of a run: plain values without interpolation or code execution."""

from __future__ import annotations

import difflib
from dataclasses import asdict, replace
from pathlib import Path

import yaml
import yaml.composer
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import model.config
from configs.atomic_file import write_whole
from configs.errors import UserError
from configs.literals import literal
from configs.program import expanded
from configs.run_contents import check_contents
from training.config import CHOICES, TrainConfig

FORMAT = 2
"""Version of the weight semantics, stored in every config.yaml: rotary positions rotate entries i and i + D/2 of a head
as a pair. Weights of another version load, but produce garbage."""

REMOVED = {
    "trainer.skip_limit": ...,
    "trainer.r_drop": ...,
    "model.word_dropout": ...,
    "model.norm_gain": True,
    "model.rotary_fraction": 1.0,
    "model.embedding_norm": False,
    "model.logit_cap": None,
}
"""Settings that the config of a run may have and that no longer exist, with the only value that this program can
compute; `...` for any, of settings that matter in training alone."""


def to_yaml(config: TrainConfig) -> str:
    """Return the complete config as YAML; strings are literal, including `${`."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)


def to_omegaconf(config: TrainConfig) -> DictConfig:
    """Convert the config to OmegaConf, which checks types and applies settings; strings are literal."""
    return OmegaConf.merge(OmegaConf.structured(TrainConfig), literal(asdict(config)))  # type: ignore[return-value]


def save_config(config: TrainConfig, run: Path) -> None:
    """Write the complete config, atomically replacing an older one; `find_nan` is a request for one start only."""
    config = replace(config, trainer=replace(config.trainer, find_nan=False))
    write_whole(run / "config.yaml", f"format: {FORMAT}\n{to_yaml(config)}".encode())


def load_config(run: Path) -> TrainConfig:
    """Load a run's config; raises UserError if `run` is not a run folder or the current code cannot use its weights."""
    path = run / "config.yaml"
    if not run.is_dir():
        raise UserError(f"{run}: no such run folder{similar_run(run)}")
    check_contents(run)
    if not path.exists():
        if (run / "config.json").is_file():
            raise UserError(f"{run}: is a model of transformers, not a run; train.py init_from={run} makes a run of it")
        raise UserError(f"{run}: contains no config.yaml, so it is not a run folder{similar_run(run)}")
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), _PlainLoader)
        if not isinstance(loaded, dict) or not loaded:
            raise UserError(f"{path}: is empty; copy the run again")
        version = loaded.pop("format", None)
        for key, only in REMOVED.items():
            group, name = key.split(".")
            value = loaded[group].pop(name, only) if isinstance(loaded.get(group), dict) else only
            if only is not ... and value != only:
                fix = "use the version of this program that trained the run"
                raise UserError(f"{path}: {key}={value}: is no longer supported; {fix}")
        loaded = OmegaConf.create(literal(loaded))
        if missing := sorted(OmegaConf.missing_keys(loaded)):
            raise UserError(f"{path}: {missing[0]}=??? marks a missing value; set it, or delete the line")
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TrainConfig), loaded))
    except (OmegaConfBaseException, yaml.YAMLError, OSError, ValueError, TypeError, RecursionError) as error:
        cause = str(error).strip() or type(error).__name__
        raise UserError(f"{path}: cannot be read as a config: {cause.splitlines()[0]}") from error
    assert isinstance(config, TrainConfig)
    if version != FORMAT:
        raise UserError(
            f"{run}: was written by another version of this program (format {version}, here {FORMAT}): use that version"
        )
    if messages := [f"task={config.task}: must be gpt or translate"] if config.task not in CHOICES["task"] else []:
        raise UserError(f"{path}: {messages[0]}")
    if messages := model.config.problems(config.model):  # other settings may be changed on resume, and are checked then
        raise UserError(*(f"{path}: {problem}" for problem in messages))
    return config


class _PlainLoader(yaml.SafeLoader):
    """Reads YAML without aliases, which this program does not write: nested ones stand for billions of values."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, f"it has an alias, *{event.anchor}", event.start_mark)
        return super().compose_node(parent, index)


def run_and_checkpoint(path: Path, otherwise: str = "last") -> tuple[Path, str]:
    """Split a run folder, or one of its checkpoints (`runs/x/checkpoints/best`), into run and checkpoint name."""
    if path.parent.name == "checkpoints" and not (path / "config.yaml").exists():
        return path.parent.parent, path.name
    return path, otherwise


def named_runs(name: str, checkpoint: str) -> list[tuple[Path, str]]:
    """Return the run folder and the checkpoint of each model that the user names: a run, one of its checkpoints, or
    several of them separated by commas. Raises UserError if one of the names is empty."""
    names = [name] if "," not in name or expanded(name).exists() else name.split(",")
    if not all(names):
        raise UserError(f"{name}: one of the names is empty; write runs/A,runs/B")
    return [run_and_checkpoint(expanded(path), checkpoint) for path in names]


def similar_run(run: Path) -> str:
    """Return ` (did you mean …?)` with a similar run in `runs`, next to `run` or above it, or an empty string."""
    around = [*Path("runs").glob("*/config.yaml"), *run.parent.glob("*/config.yaml")]
    above = [parent for parent in run.parents if (parent / "config.yaml").is_file()]
    by_name = {path.parent.name: path.parent for path in reversed(around)}
    near = [by_name[name] for name in difflib.get_close_matches(run.name, by_name, n=1, cutoff=0.75)]
    return f" (did you mean {(above or near)[0]}?)" if above or near else ""
