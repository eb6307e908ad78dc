"""A folder of Hugging Face transformers: its config.json and its safetensors, checked and never unpickled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import UserError
from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.architectures import ARCHITECTURES
from interop.pretrained.values import Values
from model.config import ModelConfig, problems

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


def is_pretrained(path: Path) -> bool:
    """Whether a folder is one of transformers, and not a run."""
    return (path / CONFIG).is_file() and not (path / "config.yaml").exists()


@dataclass(frozen=True)
class Pretrained:
    """A folder whose config.json has been read; its weights and tokenizers are read on demand."""

    folder: Path
    architecture: Architecture
    values: dict[str, Any]
    """Of its config.json."""
    shapes: Shapes

    @property
    def config(self) -> ModelConfig:
        """Return the model as one of ours; dropout is not taken over."""
        return self.shapes.config


def read_folder(folder: Path) -> Pretrained:
    """Read and check the config.json of a folder, without torch. Raises UserError with all of its problems."""
    path = folder / CONFIG
    content = read_json(path)
    name = content.get("model_type")
    if name not in ARCHITECTURES:
        raise UserError(f"{path}: model_type={name}: cannot be imported, only {', '.join(sorted(ARCHITECTURES))}")
    architecture, values = ARCHITECTURES[name], Values(str(path), content)
    config = settled(architecture.read(values))
    rows = values.whole("vocab_size")
    separate = architecture.task == "translate" and not config.share_embeddings
    shapes = Shapes(config, rows, values.whole("decoder_vocab_size", rows) if separate else rows)
    values.check()
    if found := problems(config):
        raise UserError(*(f"{path}: {problem}" for problem in found))
    check_weights(folder)
    return Pretrained(folder, architecture, content, shapes)


def settled(config: ModelConfig) -> ModelConfig:
    """Return the same model with every setting that equals a default spelled in the same way."""
    return replace(
        config,
        norm_eps=None if config.norm_eps == (1e-6 if config.norm == "rms" else 1e-5) else config.norm_eps,
        kv_heads=None if config.kv_heads == config.heads else config.kv_heads,
        encoder_layers=None if config.encoder_layers == config.layers else config.encoder_layers,
        feed_forward=None
        if config.hidden_width == replace(config, feed_forward=None).hidden_width
        else config.feed_forward,
    )


def check_weights(folder: Path) -> None:
    """Raise UserError if the folder has no safetensors."""
    if (folder / WEIGHTS).exists() or (folder / INDEX).exists():
        return
    pickled = sorted([*folder.glob("pytorch_model*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
    if pickled:
        convert = "AutoModel.from_pretrained(folder).save_pretrained(new_folder)"
        wrong = "is a pickle, which can run any program and is never read here"
        raise UserError(f"{pickled[0]}: {wrong}; in transformers, {convert} writes {WEIGHTS} instead")
    raise UserError(f"{folder}: contains no {WEIGHTS}; download the whole model")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder, memory-mapped, from one file or from several. Raises UserError."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    names = [WEIGHTS]
    if not (folder / WEIGHTS).exists():
        index = read_json(folder / INDEX).get("weight_map")
        names = sorted({str(name) for name in index.values()}) if isinstance(index, dict) else []
    found: dict[str, Tensor] = {}
    for name in names:
        path = folder / name
        if path.parent != folder:
            raise UserError(f"{folder / INDEX}: names {name}, which is not in this folder")
        with _reading(path, SafetensorError):
            found |= load_file(path)
    return found


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises UserError if it cannot be read."""
    with _reading(path, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
    return content


@contextmanager
def _reading(path: Path, damage: type[Exception]) -> Iterator[None]:
    """Convert the errors of a missing or damaged file to UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); download the whole model") from error
    except (ValueError, damage) as error:
        raise UserError(f"{path}: is damaged ({str(error)[:100]}); download it again") from error
